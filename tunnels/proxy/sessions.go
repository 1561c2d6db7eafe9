package proxy

import (
	"fmt"
	"sync"
	"time"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// sessions tracks the newest connection of each session.
type sessions struct {
	keep time.Duration
	now  func() time.Time

	mu       sync.Mutex
	draining bool
	known    map[sessionKey]*known
}

// sessionKey identifies a session. It has the user's name, so that users cannot end each other's
// sessions.
type sessionKey struct{ user, session string }

// known is a session, present or recent.
type known struct {
	epoch uint64
	// fence ends the connection with that epoch; nil: it has ended.
	fence func()
	gone  time.Time
}

// maxKnown is how many ended sessions are remembered, for their epochs.
const maxKnown = 8192

func newSessions(keep time.Duration) *sessions {
	return &sessions{keep: keep, now: time.Now, known: map[sessionKey]*known{}}
}

// begin begins a connection of a session, and ends the previous one. fence is called, once and
// without delay, when a newer one begins.
func (s *sessions) begin(key sessionKey, epoch uint64, fence func()) (over func(), refused *tunnelv1.Refused) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return nil, draining()
	}
	before := s.known[key]
	if before != nil && epoch <= before.epoch {
		return nil, &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_TAKEN,
			Message: fmt.Sprintf("The session has a connection with epoch %d, and this one has %d: a newer connection has its tunnels.", before.epoch, epoch)}
	}
	if before != nil && before.fence != nil {
		before.fence()
	}
	s.forget()
	mine := &known{epoch: epoch, fence: fence}
	s.known[key] = mine
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		mine.fence, mine.gone = nil, s.now()
	}, nil
}

// forget drops sessions that ended long ago, and any ended one when there are too many. s.mu is
// held.
func (s *sessions) forget() {
	look := 4
	for key, k := range s.known {
		full := len(s.known) >= maxKnown
		if look--; look < 0 && !full {
			return
		}
		if k.fence == nil && (full || s.now().Sub(k.gone) > s.keep) {
			delete(s.known, key)
		}
	}
}

// open returns the number of open connections of sessions.
func (s *sessions) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, k := range s.known {
		if k.fence != nil {
			n++
		}
	}
	return n
}

// drain refuses further connections.
func (s *sessions) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
}

func draining() *tunnelv1.Refused {
	return &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_DRAINING, Message: "The proxy is draining: connect to another one."}
}
