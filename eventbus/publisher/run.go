package publisher

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
)

const (
	// firstPause and longestPause are between two attempts to reach the log.
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
	// crowdedPause is the longest between two epochs that end because the log is
	// full: where what counts does not fit, a new one ends as the last did, and each
	// costs the history of the one before.
	crowdedPause = time.Minute
)

// backoff is how long to wait before the next life.
type backoff struct{ pause time.Duration }

// after returns the pause after a life that lasted so long and ended with err. A log
// that was whole is expected to be back soon, unless it was full.
func (b *backoff) after(err error, whole bool, lasted time.Duration) time.Duration {
	full, most := errors.Is(err, eventbus.ErrFull), longestPause
	if full {
		most = crowdedPause
	}
	if whole && !full || lasted >= crowdedPause {
		b.pause = 0
	}
	b.pause = min(max(2*b.pause, firstPause), most)
	return b.pause
}

// Run begins the log and keeps it whole until ctx ends; it returns nil then. It
// is to run in the leader only.
func (p *Publisher) Run(ctx context.Context) error {
	var last life
	var pauses backoff
	for ctx.Err() == nil {
		began := time.Now()
		now, err := p.live(ctx, last)
		pause := pauses.after(err, p.away(err), time.Since(began))
		if now.mark.Epoch != "" {
			last = now
		}
		last.ended = err
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, eventbus.ErrEpochEnded) && now.mark.Epoch != "" {
			p.config.Logger.Warn("the routing log has ended; looking for another", "epoch", now.mark.Epoch, "reason", err)
			continue
		}
		p.config.Logger.Warn("the routing log is away; trying again", "error", err, "within", pause.String())
		wake.Sleep(ctx, pause/2+rand.N(pause/2))
	}
	p.saveLast(ctx)
	return nil
}

// life is one stretch of following one log.
type life struct {
	// mark is how far the log was known; zero when it did not come to that.
	mark event.Mark
	// published is true if facts could be published.
	published bool
	// ended is why the life ended.
	ended error
}

// live begins and follows the log, and keeps it whole, until something ends that.
func (p *Publisher) live(ctx context.Context, last life) (life, error) {
	begun, reason, err := p.begin(ctx, last)
	if err != nil {
		return life{}, err
	}
	follower, err := p.config.Log.Follow(ctx)
	if err != nil {
		return life{}, err
	}
	defer follower.Close()
	mirror, err := p.catchUp(ctx, follower, begun.Epoch)
	if err != nil {
		// A log that cannot be read is begun again, by its name.
		return life{mark: begun}, err
	}
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	p.present(mirror, interrupt, last, reason)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.follow(ctx, follower) })
	group.Go(func() error { return p.keepWhole(ctx) })
	group.Go(func() error { return p.keepBounds(ctx) })
	group.Go(func() error { return p.keepSaved(ctx) })
	err = group.Wait()
	if cause := context.Cause(ctx); errors.Is(err, context.Canceled) && cause != nil {
		err = cause
	}
	return life{mark: p.seen().Mark, published: true}, err
}

// catchUp reads all that is in the log now.
func (p *Publisher) catchUp(ctx context.Context, f eventbus.Follower, epoch string) (mirror, error) {
	kept, err := p.config.Log.Kept(ctx)
	if err != nil {
		return mirror{}, err
	}
	if kept.Tip.Epoch != epoch {
		return mirror{}, eventbus.ErrEpochEnded
	}
	m := mirror{epoch: epoch, newest: map[event.Key]event.Recorded{}}
	if kept.Floor.Seq > 1 && kept.Floor.Seq <= kept.Tip.Seq {
		m.begins = kept.Floor.Seq
	}
	for m.last < kept.Tip.Seq {
		facts, err := f.Next(ctx)
		if err != nil {
			return mirror{}, err
		}
		for _, r := range facts {
			if r.Pos.Epoch != epoch {
				return mirror{}, eventbus.ErrEpochEnded
			}
			m.take(r)
		}
	}
	m.followed = m.last
	m.floors, err = p.config.Log.HistoryOf(ctx, event.LogFloor)
	return m, err
}

// present lets the waiting Puts go, and asks for a round if one is due: always
// for a leader that is new or a log that is not the last one or not whole, and
// otherwise when facts could not be stated in between.
func (p *Publisher) present(m mirror, interrupt context.CancelCauseFunc, last life, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.busy = p.mirror.busy // those that began before go on
	if m.busy == nil {
		m.busy = map[event.Key]struct{}{}
	}
	p.mirror, p.interrupt, p.why = m, interrupt, nil
	if !last.published || last.mark.Epoch != m.epoch || !m.whole() || p.round.filling {
		p.round.due = reason
	}
	p.changed.Send()
}

// away takes the log away from those who would write it, and reports whether it was
// whole until then.
func (p *Publisher) away(why error) (whole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	whole = p.mirror.whole()
	p.mirror = mirror{newest: map[event.Key]event.Recorded{}, busy: p.mirror.busy}
	p.interrupt, p.why, p.full = nil, why, false
	p.changed.Send()
	return whole
}

// follow keeps the mirror up to date.
func (p *Publisher) follow(ctx context.Context, f eventbus.Follower) error {
	for {
		facts, err := f.Next(ctx)
		if err != nil {
			return err
		}
		p.mu.Lock()
		for _, r := range facts {
			if p.learn(r) && !p.mirror.expected(r.Fact.Key) {
				p.round.request(reasonForeign)
			}
			p.mirror.followed = max(p.mirror.followed, r.Pos.Seq)
		}
		p.changed.Send()
		p.mu.Unlock()
	}
}
