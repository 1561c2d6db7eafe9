// Package driver executes the Steps of the state machines of tunnels/attempts: it has their clock,
// their timers, and the contexts of their attempts. Keep runs the sessions that these become.
package driver

import (
	"context"
	"sync"
	"time"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/attempts"
	"switchyard.dev/tunnels/carrier"
)

// Driver executes the Steps of one Machine. Make one with New. One goroutine calls its methods.
type Driver struct {
	// Context is that of New.
	Context context.Context
	// Running are the attempts, and the sessions that they became.
	Running sync.WaitGroup
	// Due fires at the time of the last Step with one, and Check each second.
	Due   *time.Timer
	Check *time.Ticker

	stop, old context.CancelFunc // of the newest attempt, and of the session beside it
	last      time.Time
}

// New returns a Driver with attempts that end with ctx. Close releases it.
func New(ctx context.Context) *Driver {
	none := func() {}
	return &Driver{Context: ctx, Due: time.NewTimer(time.Hour), Check: time.NewTicker(time.Second), stop: none, old: none, last: time.Now()}
}

// Do executes a Step. If it begins an attempt, connect makes it, and runs its session, until the
// context ends that connect gets.
func (d *Driver) Do(step attempts.Step, connect func(context.Context)) {
	if step.Drop {
		d.drop()
	}
	if step.Dial != 0 {
		if step.Aside {
			d.old = d.stop // the server ends it
		} else {
			d.stop()
		}
		ctx, stop := context.WithCancel(d.Context)
		d.stop = stop
		d.Running.Go(func() {
			defer stop()
			connect(ctx)
		})
	}
	if !step.At.IsZero() {
		d.Due.Reset(time.Until(step.At))
	}
}

func (d *Driver) drop() {
	d.stop()
	d.old()
}

// LongestLinger bounds for how long a session with a server that drains continues.
const LongestLinger = 5 * time.Minute

// Keep runs a session and its parts until the session ends; the end of ctx ends it. Once the server
// reports that it drains, Keep calls leaving, and the session continues until the server ends it, or
// shortly after the time that the server announced.
func Keep(ctx context.Context, s *carrier.Session, leaving func(*tunnelv1.Leave), parts ...func()) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, part := range parts {
		running.Go(part)
	}
	leaves, late := s.Leaving(), (<-chan time.Time)(nil)
	for {
		select {
		case leave := <-leaves:
			leaves, late = nil, time.After(min(leave.GetLinger().AsDuration(), LongestLinger)+time.Second)
			leaving(leave)
		case <-s.Done():
			return
		case <-late:
			s.Close(nil)
		case <-ctx.Done():
			s.Close(nil)
		}
	}
}

// Gap returns the time since its last call. The monotonic clock may stop while the machine sleeps,
// the wall clock does not: the longer time counts.
func (d *Driver) Gap() time.Duration {
	now := time.Now()
	gap := max(now.Sub(d.last), now.Round(0).Sub(d.last.Round(0)))
	d.last = now
	return gap
}

// Close ends attempts and sessions, without waiting for them.
func (d *Driver) Close() {
	d.drop()
	d.Due.Stop()
	d.Check.Stop()
}
