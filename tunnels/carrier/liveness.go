package carrier

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// looks is how often in each Timing.Silence an end checks its clock.
const looks = 4

// keep sends a sign of life after Silence, and ends the session when the other end is silent for
// Dead.
func (s *Session) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var pinging atomic.Bool
	grace := s.wire.now() // silence before it is ignored
	last, lastWall := grace, time.Now().Round(0)
	for {
		select {
		case <-timer.C:
		case <-s.done:
			return
		}
		now, wall := s.wire.now(), time.Now().Round(0)
		// The monotonic clock of Linux stops while a machine sleeps, the wall clock does not.
		gap := max(time.Duration(now-last), wall.Sub(lastWall))
		last, lastWall = now, wall
		if gap > s.timing.Gap {
			s.fresh.doubt(s)
		}
		if gap > s.timing.Silence {
			grace = now // this end did not run
		}
		heard := max(s.wire.heard.Load(), grace)
		if time.Duration(now-heard) >= s.timing.Dead {
			s.end(ErrSilent)
			return
		}
		due := s.wire.sent.Load() + int64(s.timing.Silence)
		if due <= now {
			if pinging.CompareAndSwap(false, true) {
				go func() {
					defer pinging.Store(false)
					_ = s.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Ping{Ping: &tunnelv1.Ping{}}})
				}()
			}
			due = now + int64(s.timing.Silence)
		}
		next := min(due, heard+int64(s.timing.Dead), now+int64(s.timing.Silence)/looks)
		timer.Reset(time.Duration(next - now))
	}
}

// freshness tracks whether the other end has answered since this process was last suspended.
type freshness struct {
	sync.Mutex
	answered chan struct{} // nil: there is no doubt
}

// doubt pings the other end. Until it answers, wait blocks.
func (f *freshness) doubt(s *Session) {
	f.Lock()
	defer f.Unlock()
	if f.answered != nil {
		return
	}
	answered := make(chan struct{})
	f.answered = answered
	late := time.AfterFunc(s.timing.Dead, func() {
		s.end(fmt.Errorf("the other end of the tunnel does not answer after this one stood still: %w", ErrCut))
	})
	go func() {
		_, err := s.mux.Ping()
		if !late.Stop() || err != nil {
			return // the session has ended
		}
		f.Lock()
		f.answered = nil
		f.Unlock()
		close(answered)
	}()
}

// wait returns once the other end has answered, or the session has ended.
func (f *freshness) wait(ctx context.Context, s *Session) error {
	f.Lock()
	answered := f.answered
	f.Unlock()
	if answered == nil {
		return nil
	}
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return s.err
	}
}
