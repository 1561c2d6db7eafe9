package inbound

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"switchyard.dev/eventbus/callers"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/relay"
)

// accept forwards the connections to one port until the port is closed.
func (t *Table) accept(of *tunnel, port int32, l net.Listener) {
	callers.Accept(t.ctx, l, t.cfg.Logger.With("workload", of.key.String()), &t.ended, func(conn net.Conn) { t.forward(of, port, conn) })
}

// forward passes one connection to the workstation, if there is one.
func (t *Table) forward(of *tunnel, port int32, conn net.Conn) {
	stream := relay.Of(conn)
	stop := context.AfterFunc(t.ctx, func() { relay.Cut(stream) })
	defer stop()
	holder, record := t.holderOf(of, port, conn)
	if holder == nil {
		relay.Cut(stream) // at once, and as an error
		return
	}
	defer t.sources.enter(of.key, record.Via, conn)()
	leave, err := t.pool.Enter(callers.Caller{Kind: callers.Pod, Name: of.key.String()})
	if err != nil {
		t.cfg.Logger.Warn("a connection to a workload was refused", "workload", of.key.String(), "from", record.From, "error", err)
		relay.Cut(stream)
		return
	}
	defer leave()
	ctx, cancel := context.WithTimeout(t.ctx, recordWithin)
	opened, err := t.cfg.Audit.Begin(ctx, record)
	cancel()
	if err != nil {
		t.cfg.Logger.Warn("a connection to a workload was refused, since it could not be recorded", "workload", of.key.String(), "from", record.From, "error", err)
		relay.Cut(stream)
		return
	}
	defer t.cfg.Counts.Begun(audit.Inbound)()
	ctx, cancel = context.WithTimeout(t.ctx, openWithin)
	far, err := holder.to.Connect(ctx, &tunnelv1.Inbound{Namespace: of.key.Namespace, Name: of.key.Name, BaselinePort: port, From: record.From, User: t.cfg.User(record.From)})
	cancel()
	if err != nil {
		relay.Cut(stream)
		opened.End(0, 0, fmt.Sprintf("the workstation did not take it: %v", err))
		return
	}
	r := relay.Pipe(stream, far)
	how := audit.Closed
	if r.Err != nil {
		how = r.Err.Error()
	}
	opened.End(r.Sent, r.Received, how)
}

// holderOf returns the holder of a tunnel, and the audit record of a connection to it.
func (t *Table) holderOf(of *tunnel, port int32, conn net.Conn) (*Holder, audit.Connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return of.holder, audit.Connection{
		Direction: audit.Inbound, Via: of.owner.Via, User: of.owner.User, Session: of.owner.Session,
		From: conn.RemoteAddr().String(), To: fmt.Sprintf("%s:%d", of.key, port), Sandbox: of.sandbox, Workload: of.key.String(),
	}
}

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
