// Package projection keeps what is folded from a log up to date, whatever happens to the
// log: a Projection reads on where its fold stands, waits before it tries again, and begins
// anew when the log is another one.
//
// The writer of the log (eventbus/publisher) follows it with a loop of its own. That one
// begins and verifies the log rather than wait for it, states facts while it reads, looks
// for another log at once where this one waits, and has pauses that depend on why a log
// ended: what both would share is less than what one would have to tell the other.
package projection

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"switchyard.dev/eventbus"
)

// Projection is something that is folded from a log.
type Projection struct {
	// Read reads the log on from where the fold stands, until that fails, and reports
	// whether it got anything.
	Read func(context.Context) (progress bool, err error)
	// Forget drops the fold: what it was folded from is not what the log has now.
	Forget func()
	// Away is told why the log cannot be read, and within what time it is read again.
	Away func(err error, retryIn time.Duration)
	// Retry bounds the waits in between.
	Retry Retry
}

// Run keeps the fold up to date until ctx ends, and returns nil then.
func (p Projection) Run(ctx context.Context) error {
	for wait := p.Retry.Min; ; wait = min(2*wait, p.Retry.Max) {
		progress, err := p.Read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if progress {
			wait = p.Retry.Min
		}
		// Also when the epoch has the same name: a store that was rewound and written again
		// has other facts at the same places, and what was withdrawn and then forgotten would
		// stay in the fold.
		if errors.Is(err, eventbus.ErrEpochEnded) || errors.Is(err, eventbus.ErrGone) || errors.Is(err, eventbus.ErrDamaged) {
			p.Forget()
		}
		p.Away(err, wait)
		select {
		case <-time.After(wait/2 + rand.N(wait/2+1)):
		case <-ctx.Done():
			return nil
		}
	}
}

// Retry bounds the wait before a log is read again. It doubles from Min to Max, and half of
// it is random.
type Retry struct{ Min, Max time.Duration }

// Or returns r with defaults in the place of what is zero.
func (r Retry) Or(least, most time.Duration) Retry {
	r.Min = cmp.Or(r.Min, least)
	return Retry{r.Min, cmp.Or(r.Max, max(most, r.Min))}
}

// Validate returns what is wrong with r, or nil.
func (r Retry) Validate() error {
	if r.Min < 0 || r.Max < r.Min {
		return errors.New("Config.Retry.Min must not be negative nor exceed Max")
	}
	return nil
}
