package proxy

import (
	"maps"
	"net"
	"sync"
	"time"

	"switchyard.dev/sidecars/traffic/parse"
)

// The port of a member fails when connections of enoughCallers addresses had no answer, or enoughConnections of fewer, within
// remembered and before any answer. So no caller with another port or without an application fails it by a few requests. What
// failed is forgotten after remembered: the cause may be mended, and only requests can show that.
const (
	enoughCallers     = 3
	enoughConnections = 10
	remembered        = time.Minute
)

// returned has, of the ports with requests that come back to where they were sent to, whether connections were answered. One answer
// shows that they do come back. It is safe for concurrent use.
type returned struct {
	mu   sync.Mutex
	ways map[Port]*way
}

// way is the state of a port: an answer, or connections without one since a time. With failed, that is since it failed.
type way struct {
	answered    bool
	since       time.Time
	callers     map[string]bool
	connections int
	failed      string
}

// answer notes the first byte of an answer.
func (r *returned) answer(port Port) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ways == nil {
		r.ways = map[Port]*way{}
	}
	r.ways[port] = &way{answered: true}
}

// fail notes that a connection of a caller had no answer, and why it ended. If the caller has ended it, that shows nothing.
func (r *returned) fail(port Port, caller, why string, now time.Time) {
	if why == "closed by the "+parse.Request.String() || why == "reset by the "+parse.Request.String() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ways == nil {
		r.ways = map[Port]*way{}
	}
	w := r.ways[port]
	if w == nil || !w.answered && now.Sub(w.since) > remembered {
		w = &way{since: now, callers: map[string]bool{}}
		r.ways[port] = w
	}
	if w.answered || w.failed != "" {
		return
	}
	w.callers[caller] = true
	w.connections++
	if len(w.callers) >= enoughCallers || w.connections >= enoughConnections {
		w.since, w.failed = now, "requests do not come back to the application: "+why
	}
}

// failed returns why ports have failed, by listening ports.
func (r *returned) failed(now time.Time) map[uint32]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[uint32]string{}
	for port, w := range r.ways {
		if w.failed != "" && now.Sub(w.since) <= remembered {
			out[uint32(port.Listening)] = w.failed //nolint:gosec // a port
		}
	}
	return out
}

// keep forgets all other ports than these.
func (r *returned) keep(ports map[Port]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.ways, func(p Port, _ *way) bool { return !ports[p] })
}

// Unanswered returns why requests of ports do not come back, by listening ports. It forgets that after a minute.
func (p *Proxy) Unanswered() map[uint32]string { return p.returned.failed(time.Now()) }

// Begin forgets the state of a port, which is attached again.
func (p *Proxy) Begin(port Port) {
	p.returned.mu.Lock()
	defer p.returned.mu.Unlock()
	delete(p.returned.ways, port)
}

// hostOf returns the host of an address.
func hostOf(address net.Addr) string {
	host, _, _ := net.SplitHostPort(address.String())
	return host
}

// asks reports whether a client sends something: one that only tests whether the port is open does not.
func asks(client net.Conn) bool {
	_ = client.SetReadDeadline(time.Now().Add(asksWithin))
	n, _ := client.Read(make([]byte, 1))
	return n > 0
}

const asksWithin = time.Second
