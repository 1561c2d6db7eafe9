package publisher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

const (
	// firstPause and longestPause are between two attempts to reach the log.
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
	// savePause is how far the saved sequence may lag behind.
	savePause = 5 * time.Second
)

// Run begins the log and keeps it whole until ctx ends; it returns nil then. It
// is to run in the leader only.
func (p *Publisher) Run(ctx context.Context) error {
	var last life
	pause := firstPause
	for ctx.Err() == nil {
		now, err := p.live(ctx, last)
		if p.away(err) {
			pause = firstPause
		}
		if now.epoch != "" {
			last = now
		}
		last.ended = err
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, eventbus.ErrEpochEnded) && now.epoch != "" {
			p.config.Logger.Warn("the routing log has ended; beginning another", "epoch", now.epoch, "reason", err)
			continue
		}
		p.config.Logger.Warn("the routing log is away; trying again", "error", err)
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
			pause = min(2*pause, longestPause)
		case <-ctx.Done():
		}
	}
	return nil
}

// life is one stretch of following one log.
type life struct {
	// epoch is the log that was followed; empty when it did not come to that.
	epoch string
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
		return life{}, err
	}
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	p.present(mirror, interrupt, last, reason)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.follow(ctx, follower) })
	group.Go(func() error { return p.keepWhole(ctx) })
	group.Go(func() error { return p.keepSaved(ctx) })
	err = group.Wait()
	if cause := context.Cause(ctx); errors.Is(err, context.Canceled) && cause != nil {
		err = cause
	}
	return life{epoch: begun.Epoch}, err
}

// begin begins the log, or begins it anew when what is there cannot be trusted
// or added to. It says why the log is to be filled.
func (p *Publisher) begin(ctx context.Context, last life) (event.Pos, string, error) {
	saved, err := p.config.Epochs.Load(ctx)
	if err != nil {
		return event.Pos{}, "", fmt.Errorf("read the saved position of the log: %w", err)
	}
	mark, err := p.config.Log.Begin(ctx, event.Mark{})
	if err != nil && !errors.Is(err, eventbus.ErrDamaged) {
		return event.Pos{}, "", err
	}
	if why := distrust(mark.Pos, saved, errors.Join(err, last.ended)); why != "" {
		p.config.Logger.Error("the routing log is begun anew; its history up to here is lost",
			"reason", why, "epoch", mark.Epoch, "tip", mark.Seq, "savedTip", saved.Seq)
		if mark, err = p.config.Log.Restart(ctx, mark.Epoch); err != nil {
			return event.Pos{}, "", err
		}
	}
	pos := mark.Pos
	if pos.Epoch != saved.Epoch {
		p.config.Logger.Info("a new routing log", "epoch", pos.Epoch, "before", saved.Epoch)
		p.save(ctx, pos)
	}
	switch saved.Epoch {
	case "":
		return pos, reasonFirst, nil
	case pos.Epoch:
		return pos, reasonLeader, nil
	}
	return pos, reasonEpoch, nil
}

// distrust says why the log that is there must not be used; empty when it may.
func distrust(pos, saved event.Pos, ended error) string {
	switch {
	case pos.Epoch == saved.Epoch && pos.Seq < saved.Seq:
		return "its store was rewound: it ends before the saved position"
	case errors.Is(ended, eventbus.ErrFull), errors.Is(ended, eventbus.ErrDamaged):
		return ended.Error()
	}
	return ""
}

// catchUp reads all that is in the log now.
func (p *Publisher) catchUp(ctx context.Context, f eventbus.Follower, epoch string) (mirror, error) {
	tip, err := p.config.Log.Tip(ctx)
	if err != nil {
		return mirror{}, err
	}
	if tip.Epoch != epoch {
		return mirror{}, eventbus.ErrEpochEnded
	}
	m := mirror{epoch: epoch, newest: map[event.Key]event.Recorded{}}
	for m.last < tip.Seq {
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
	return m, nil
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
	if last.epoch != m.epoch || !m.whole() || p.round.filling {
		p.round.due = reason
	}
	p.wake()
}

// away takes the log away from those who would write it, and says whether it was
// whole until then.
func (p *Publisher) away(why error) (whole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	whole = p.mirror.whole()
	p.mirror.epoch, p.mirror.newest, p.mirror.last = "", map[event.Key]event.Recorded{}, 0
	p.interrupt, p.why = nil, why
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
			if p.mirror.follow(r) {
				p.round.request(reasonForeign)
				p.wake()
			}
		}
		p.mu.Unlock()
	}
}

// keepSaved saves the position now and then.
func (p *Publisher) keepSaved(ctx context.Context) error {
	ticker := time.NewTicker(savePause)
	defer ticker.Stop()
	var saved event.Pos
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if pos := p.Position(); pos != saved && pos.Epoch != "" && p.save(ctx, pos) {
			saved = pos
		}
	}
}

// save saves a position. Failing it is no reason to stop: routes matter more
// than noticing, some day, that a store was rewound. It is tried again.
func (p *Publisher) save(ctx context.Context, pos event.Pos) bool {
	err := p.config.Epochs.Save(ctx, pos)
	if err != nil && ctx.Err() == nil {
		p.config.Logger.Warn("the position of the routing log could not be saved; trying again", "error", err)
	}
	return err == nil
}
