package carrier

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// joinWithin is how long streams wait for a second session from its request on.
	joinWithin = time.Second
	// joinedAfter is when a second session that has joined may be requested again, and notJoinedAfter when one that
	// has not. The latter bounds a request as well.
	joinedAfter, notJoinedAfter = time.Second, 30 * time.Second
)

// shared is what a session has in common with one that has joined it.
type shared struct {
	incoming chan *Incoming
	accepted atomic.Int32 // open streams that peers have opened
	streams  atomic.Int32 // all open streams, except for those of control
	unread   atomic.Int64 // bytes, as meters count them
	growth   growth
}

// second is the newest session that has joined another one.
type second struct {
	sync.Mutex
	session *Session
	after   time.Time       // when the next may be requested
	begins  context.Context // ends once the requested one has joined, cannot, or is late; nil: none was requested
	begun   context.CancelFunc
}

// shared returns what the session shares. It changes once, before the first connection.
func (s *Session) shared() *shared { return s.wire.meter.in.Load() }

// join has the session share what another one has, and end with it.
func (s *Session) join(first *Session) {
	s.wire.meter.move(first.shared())
	n := &first.second
	n.Lock()
	defer n.Unlock()
	n.session, n.after = s, time.Now().Add(joinedAfter)
	if n.begun != nil {
		n.begun()
	}
	go func() {
		select {
		case <-first.done:
			s.end(first.err)
		case <-s.done:
		}
	}()
}

// Second returns the session that has joined this one (Settings.Beside), or else this one. If there is none it calls
// request in a goroutine, unless that is nil, or was called a short time ago: request has the other end begin one, and
// returns an error if there will be none. Second waits a second for it at most, and not again for the same request.
func (s *Session) Second(ctx context.Context, request func(context.Context) error) *Session {
	n := &s.second
	n.Lock()
	if now := time.Now(); n.live() == nil && request != nil && now.After(n.after) {
		begins, begun := context.WithTimeout(context.Background(), joinWithin)
		n.begins, n.begun, n.after = begins, begun, now.Add(notJoinedAfter)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), notJoinedAfter)
			defer cancel()
			if request(ctx) != nil {
				begun()
			}
		}()
	}
	if begins := n.begins; n.live() == nil && begins != nil {
		n.Unlock()
		select {
		case <-begins.Done():
		case <-ctx.Done():
		}
		n.Lock()
	}
	defer n.Unlock()
	return cmp.Or(n.live(), s)
}

// Joined returns the session that has joined this one; nil: none has, or it has ended.
func (s *Session) Joined() *Session {
	s.second.Lock()
	defer s.second.Unlock()
	return s.second.live()
}

// Streams returns the number of open connections over the session's own connection.
func (s *Session) Streams() int { return max(0, s.mux.NumStreams()-1) } // without control

// live returns the session; nil: there is none, or it has ended. n is locked.
func (n *second) live() *Session {
	if n.session == nil || n.session.Err() != nil {
		return nil
	}
	return n.session
}
