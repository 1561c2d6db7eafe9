package inbound

import (
	"net"
	"sync"
	"time"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/tunnels/relay"
)

const (
	// idleEach is how many connections to one workload a source, such as a pod, has before its
	// idle ones are closed for new ones: a quarter of the workload's maximum. idleSSH is the
	// limit for a workstation that is connected by SSH, which has fewer.
	idleEach, idleSSH = each / 4, 16
	// idleAfter is after how long without data a connection is idle.
	idleAfter = 30 * time.Second
)

// sources tracks the connections to workloads by source. It is safe for concurrent use.
type sources struct {
	each, ssh int
	after     time.Duration

	mu sync.Mutex
	of map[source]*from
}

// from are the connections of one source.
type from struct{ conns map[net.Conn]struct{} }

// source is a client address of a workload.
type source struct {
	to   Key
	from string
}

func newSources() *sources {
	return &sources{each: idleEach, ssh: idleSSH, after: idleAfter, of: map[source]*from{}}
}

// enter adds a connection, until gone is called. When its source has the maximum, the connection
// that has been idle longest is closed.
func (s *sources) enter(to Key, via string, conn net.Conn) (gone func()) {
	key := source{to, callers.At(conn.RemoteAddr().String()).Name}
	most := s.each
	if via == "ssh" {
		most = s.ssh
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.of[key]
	if all == nil {
		all = &from{map[net.Conn]struct{}{}}
		s.of[key] = all
	}
	if len(all.conns) >= most {
		if idle := s.idlest(all.conns); idle != nil {
			delete(all.conns, idle)
			relay.Cut(relay.Of(idle)) // its relay ends, and records the end
		}
	}
	all.conns[conn] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		// A connection that was closed for another may end after all others have ended.
		if delete(all.conns, conn); len(all.conns) == 0 && s.of[key] == all {
			delete(s.of, key)
		}
	}
}

// idlest returns the connection that has been idle longest; nil if none is idle.
func (s *sources) idlest(all map[net.Conn]struct{}) (idlest net.Conn) {
	longest := s.after
	for conn := range all {
		if is := idleFor(conn); is >= longest {
			idlest, longest = conn, is
		}
	}
	return idlest
}
