// Package redirect says how a machine leads connections to addresses of a cluster to a port of its
// own, and its queries for names to another. It is pure: rules as a value are checked, and become
// text for pf of macOS. What gives them to the kernel is tunnels/workstation/hold.
//
//	rules, and which of them would cut a machine off         redirect.go
//	their text for pf, and what pfctl says                   pf.go
//	where a connection was to go, as pf is asked for it      natlook.go
//
// No file of the system is changed, and nothing outlives the program that holds them. On Linux
// the table has an owner: the kernel takes it away with the socket that made it. On macOS the
// anchor is below com.apple, which the main ruleset evaluates, and is flushed by its name. No Mac
// was at hand: what is here for pf follows what is published of it, and no pf has read the text.
//
// Queries for names go to a resolver of ours, where there is one: those to the resolvers that the
// system has are redirected to its port, and its own queries to them pass by its mark, or its user. Rules are for the
// connections of one user of the machine: those of others are neither redirected nor recorded under that user's name.
package redirect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Rules are what is led where.
type Rules struct {
	// Name is that of the table or the anchor: letters, digits and _.
	Name string
	// Ranges are the addresses of the cluster, and Except those of them that stay as they are,
	// as the API server's own where the road leads over it.
	Ranges, Except []netip.Prefix
	// Addresses are single ones beside them.
	Addresses []netip.Addr
	// Own are the addresses of this machine, which stay as they are: pf has to be told.
	Own []netip.Addr
	// Port is the port of this machine to which TCP goes.
	Port uint16
	// Resolvers are those of the system, whose queries go to the port DNS; 0 for none.
	Resolvers []netip.Addr
	DNS       uint16
	// UID is a user of this machine: the connections and queries of that user are redirected; those
	// of other users pass. On macOS it is not root, as which this program connects there.
	UID uint32
	// Mark is that of sockets of this program, which pass, on Linux.
	Mark uint32
}

// Check returns what is wrong with rules.
func (r Rules) Check() error {
	switch {
	case r.Name == "" || strings.ContainsFunc(r.Name, func(c rune) bool {
		return c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
	}):
		return fmt.Errorf("redirect: %q is no name of a table", r.Name)
	case len(r.Ranges)+len(r.Addresses) == 0 && r.DNS == 0 || r.Port == 0:
		return fmt.Errorf("redirect: rules need addresses that are led, and a port")
	case r.DNS != 0 && len(r.Resolvers) == 0:
		return fmt.Errorf("redirect: it is not known which resolvers the system has")
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

// Range returns why a range cannot be led elsewhere, or nil.
func Range(p netip.Prefix) error {
	if !p.IsValid() || p.Addr().Is4In6() {
		return fmt.Errorf("redirect: %s is no range of addresses", p)
	}
	if p.Bits() == 0 || p.Contains(netip.MustParseAddr("127.0.0.1")) || p.Contains(netip.IPv6Loopback()) {
		return fmt.Errorf("redirect: %s has addresses of this machine, which cannot be led elsewhere", p)
	}
	return nil
}

// Single reports whether an address is one of another machine, to which connections can be led
// elsewhere.
func Single(a netip.Addr) bool {
	return a.IsValid() && !a.Is4In6() && a.Zone() == "" && a.IsGlobalUnicast()
}

// Family returns the ranges of one family, without those that others have in them, in order.
func Family(all []netip.Prefix, four bool) (out []netip.Prefix) {
	for _, p := range all {
		if p.Addr().Is4() == four {
			out = append(out, p.Masked())
		}
	}
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
