package callers

import (
	"context"
	"net"
	"net/netip"
)

// Kind is how a caller is known.
type Kind int

// The kinds of callers.
const (
	// Stranger is known by its address only.
	Stranger Kind = iota
	// Pod has shown a token of its service account that was made for us.
	Pod
	// Ours is a program of this operator: the manager, or another route server.
	Ours

	kinds = 3
)

// String names the kind as metrics do.
func (k Kind) String() string { return [...]string{"stranger", "pod", "ours"}[k] }

// Caller identifies the client of a call. The zero value is a stranger with an unknown address;
// all of those count as one caller.
type Caller struct {
	Kind Kind
	// Name is the address of a stranger, and the pod or account of others.
	Name string
	// Shared reports that several callers have this address, as those of a port-forward or of
	// a proxy do. A Pool bounds them by what there is for all strangers, and
	// neither by a share nor by a rate.
	Shared bool
}

// Forwards reports whether an address forwards the connections of others.
type Forwards func(netip.Addr) bool

// Loopback implements Forwards for the addresses from which port-forwards come.
func Loopback(a netip.Addr) bool { return a.Unmap().IsLoopback() }

// Behind returns the stranger at an address as At does, as Shared where the address is one of
// the loopback interface or forwards reports true for it. forwards may be nil.
func Behind(address string, forwards Forwards) Caller {
	c := At(address)
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return c
	}
	ip := a.Addr().Unmap().WithZone("")
	c.Shared = Loopback(ip) || forwards != nil && forwards(ip)
	return c
}

// At returns the stranger at an address, as host:port or as host alone. Of IPv6 addresses the
// first 64 bits count, because a client usually controls the whole prefix.
func At(address string) Caller {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return Caller{}
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return Caller{Name: ip.String()}
	}
	prefix, err := ip.Prefix(64)
	if err != nil {
		return Caller{}
	}
	return Caller{Name: prefix.String()}
}

// Address returns the address of a stranger; empty: it is not known, because others have it, too.
func (c Caller) Address() string {
	if c.Kind != Stranger || c.Shared {
		return ""
	}
	return c.Name
}

type contextKey struct{}

// With returns a context that carries the caller.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// From returns the caller of a context, or the zero Caller if it carries none.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(contextKey{}).(Caller)
	return c
}
