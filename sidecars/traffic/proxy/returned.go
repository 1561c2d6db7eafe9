package proxy

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"switchyard.dev/sidecars/traffic/parse"
)

// returned has, of the ports with requests that come back to where they were sent to, why no connection was answered. One answer shows
// that they do. It is safe for concurrent use.
type returned struct {
	mu       sync.Mutex
	answered map[Port]bool
	failed   map[Port]string
}

// note notes the end of a connection: whether it had bytes of an answer, and why it ended. If the caller has closed it, it shows nothing.
func (r *returned) note(port Port, answered bool, why string) {
	if !port.Returns || !answered && why == "closed by the "+parse.Request.String() || why == "reset by the "+parse.Request.String() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answered == nil {
		r.answered, r.failed = map[Port]bool{}, map[Port]string{}
	}
	if answered {
		r.answered[port] = true
		delete(r.failed, port)
	} else if !r.answered[port] {
		r.failed[port] = "requests do not come back to the application: " + why
	}
}

// keep forgets all other ports than these.
func (r *returned) keep(ports map[Port]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.answered, func(p Port, _ bool) bool { return !ports[p] })
	maps.DeleteFunc(r.failed, func(p Port, _ string) bool { return !ports[p] })
}

// Unanswered returns why no connection of a port was answered, by listening ports.
func (p *Proxy) Unanswered() map[uint32]string {
	p.returned.mu.Lock()
	defer p.returned.mu.Unlock()
	out := map[uint32]string{}
	for port, why := range p.returned.failed {
		out[uint32(port.Listening)] = why //nolint:gosec // a port
	}
	return out
}

// asks reports whether a client sends something: one that only tests whether the port is open does not.
func asks(client net.Conn) bool {
	_ = client.SetReadDeadline(time.Now().Add(asksWithin))
	n, _ := client.Read(make([]byte, 1))
	return n > 0
}

const asksWithin = time.Second

// isOwn reports whether an address is one of this pod.
func isOwn(host string) bool {
	address, err := netip.ParseAddr(host)
	return err != nil || address.IsLoopback() || slices.ContainsFunc(ownAddresses(), func(a net.Addr) bool {
		of, err := netip.ParsePrefix(a.String())
		return err == nil && of.Addr() == address.Unmap()
	})
}

// ownAddresses returns the addresses of this pod, which it has from its start to its end.
var ownAddresses = sync.OnceValue(func() []net.Addr {
	all, _ := net.InterfaceAddrs()
	return all
})
