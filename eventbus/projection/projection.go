// Package projection keeps a fold of a log up to date, whatever happens to the log: a
// Projection continues reading at the position of its fold, waits before it retries, and starts
// over when the log is another one.
//
// The writer of the log (eventbus/publisher) follows it with a loop of its own. It begins and
// verifies the log instead of waiting for it, states facts while it reads, checks for another
// log at once where this one waits, and has pauses that depend on why a log ended: they would
// share less code than the parameters for it would take.
package projection

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/wake"
)

// Projection is something that is folded from a log.
type Projection struct {
	// Read reads the log on from where the fold stands, until that fails, and reports
	// whether it got anything.
	Read func(context.Context) (progress bool, err error)
	// Forget drops the fold: the log no longer has the events that it was folded from.
	Forget func()
	// Away is called with the reason why the log cannot be read, and the delay before the next
	// attempt.
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
		// Also when the epoch has the same name: a store that was rewound and written again has
		// other facts at the same places, and withdrawn facts that were forgotten there would
		// stay in the fold.
		if errors.Is(err, eventbus.ErrEpochEnded) || errors.Is(err, eventbus.ErrGone) || errors.Is(err, eventbus.ErrDamaged) {
			p.Forget()
		}
		p.Away(err, wait)
		if !wake.Sleep(ctx, wait/2+rand.N(wait/2+1)) {
			return nil
		}
	}
}

// Retry bounds the wait before a log is read again. It doubles from Min to Max, and half of
// it is random.
type Retry struct{ Min, Max time.Duration }

// Or returns r with defaults for zero fields.
func (r Retry) Or(least, most time.Duration) Retry {
	r.Min = cmp.Or(r.Min, least)
	return Retry{r.Min, cmp.Or(r.Max, max(most, r.Min))}
}

// Validate returns an error if r is not valid.
func (r Retry) Validate() error {
	if r.Min < 0 || r.Max < r.Min {
		return errors.New("Config.Retry.Min must not be negative nor exceed Max")
	}
	return nil
}
