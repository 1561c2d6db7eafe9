// Package redirect defines the rules by which a machine redirects connections to addresses of a
// cluster to a local port, and DNS queries to another. It is pure: rules are a value, which is
// checked and rendered as text for pf of macOS. Package tunnels/workstation/redirector loads them into
// the kernel.
//
//	rules, and which of them would cut a machine off         redirect.go
//	their text for pf, and the output of pfctl               pf.go
//	the original destination of a connection, as pf has it   natlook.go
//
// No file of the system is changed, and nothing outlives the program that loads the rules. On
// Linux the table has an owner: the kernel removes it with the socket that made it. On macOS the
// anchor is below com.apple, which the main ruleset evaluates, and is flushed by its name. The
// part for pf follows the published documentation; it was not run on a Mac.
//
// DNS queries are redirected to the port of a resolver of this program, if there is one: those to
// the resolvers of the system, except the resolver's own, which pass by their mark or user. Rules
// are for the connections of one user of the machine: those of others are neither redirected nor
// recorded under that user's name.
package redirect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
)

// Rules are the connections to redirect, and where to.
type Rules struct {
	// Name is the name of the table or the anchor: letters, digits and _.
	Name string
	// Ranges are the addresses of the cluster, and Except those of them that are not redirected,
	// such as the API server's when the tunnel itself goes through it.
	Ranges, Except []netip.Prefix
	// Addresses are further single addresses.
	Addresses []netip.Addr
	// Own are the addresses of this machine, which are never redirected; only pf needs them.
	Own []netip.Addr
	// Port is the local port for TCP.
	Port uint16
	// Resolvers are those of the system. Queries to them are redirected to the port DNS; 0: they
	// are not.
	Resolvers []netip.Addr
	DNS       uint16
	// UID is a user of this machine: the connections and queries of that user are redirected;
	// those of other users pass. On macOS it must not be root, because this program connects as
	// root there.
	UID uint32
	// Mark is the mark of this program's sockets, which pass, on Linux.
	Mark uint32
}

// Check returns an error for rules that are invalid or would cut the machine off.
func (r Rules) Check() error {
	switch {
	case r.Name == "" || strings.ContainsFunc(r.Name, func(c rune) bool {
		return c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
	}):
		return fmt.Errorf("redirect: %q is no name of a table", r.Name)
	case len(r.Ranges)+len(r.Addresses) == 0 && r.DNS == 0 || r.Port == 0:
		return fmt.Errorf("redirect: rules need addresses to redirect, and a port")
	case r.DNS != 0 && len(r.Resolvers) == 0:
		return fmt.Errorf("redirect: the resolvers of the system are unknown")
	}
	for _, p := range slices.Concat(r.Ranges, r.Except) {
		if err := Range(p); err != nil {
			return err
		}
	}
	for _, a := range r.Addresses {
		if !Single(a) {
			return fmt.Errorf("redirect: %s is no address of another machine", a)
		}
	}
	return nil
}

// Range returns why a range cannot be redirected, or nil.
func Range(p netip.Prefix) error {
	if !p.IsValid() || p.Addr().Is4In6() {
		return fmt.Errorf("redirect: %s is no range of addresses", p)
	}
	if p.Bits() == 0 || p.Contains(netip.MustParseAddr("127.0.0.1")) || p.Contains(netip.IPv6Loopback()) {
		return fmt.Errorf("redirect: %s has addresses of this machine, which cannot be redirected", p)
	}
	return nil
}

// Single reports whether an address is one of another machine, to which connections can be
// redirected.
func Single(a netip.Addr) bool {
	return a.IsValid() && !a.Is4In6() && a.Zone() == "" && a.IsGlobalUnicast()
}

// Family returns the ranges of one family, sorted, without ranges that are contained in others.
func Family(all []netip.Prefix, four bool) (out []netip.Prefix) {
	out = lists.Map(lists.Filter(all, func(p netip.Prefix) bool { return p.Addr().Is4() == four }), netip.Prefix.Masked)
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		if a.Bits() != b.Bits() {
			return a.Bits() - b.Bits()
		}
		return a.Addr().Compare(b.Addr())
	})
	wide := out[:0]
	for _, p := range out {
		if !slices.ContainsFunc(wide, func(w netip.Prefix) bool { return w.Contains(p.Addr()) }) {
			wide = append(wide, p)
		}
	}
	return wide
}

// Singles returns the addresses of one family, each once, in order.
func Singles(all []netip.Addr, four bool) (out []netip.Addr) {
	for _, a := range all {
		if a = a.Unmap(); a.Is4() == four {
			out = append(out, a.WithZone(""))
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}
