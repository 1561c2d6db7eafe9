// Package redirect writes the rules by which a machine leads connections to addresses of a cluster
// to a port of its own: for nftables on Linux, and for pf on macOS. It is pure: rules as a value go
// in, text comes out. Nothing loads them yet.
//
// No file of the system is changed, and nothing outlives the program that holds them. On Linux
// the table has an owner: the kernel takes it away with the socket that made it, as when an
// nft -i that read it ends. On macOS the anchor is below com.apple, which the main ruleset
// evaluates, and is flushed by its name.
//
// Queries for names go to a resolver of ours, where there is one: those to the resolvers that the
// system has are led to its port, and what it asks them itself passes by its mark, or its user.
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
	// Port is the port of this machine to which TCP goes.
	Port uint16
	// Resolvers are those of the system, whose queries go to the port DNS; 0 for none.
	Resolvers []netip.Addr
	DNS       uint16
	// Mark is that of sockets which pass, on Linux; User is the user whose connections pass, on
	// macOS.
	Mark uint32
	User string
}

// check returns what is wrong with rules.
func (r Rules) check() error {
	switch {
	case r.Name == "" || strings.ContainsFunc(r.Name, func(c rune) bool {
		return c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
	}):
		return fmt.Errorf("redirect: %q is no name of a table", r.Name)
	case len(r.Ranges) == 0 || r.Port == 0:
		return fmt.Errorf("redirect: rules need ranges of addresses and a port")
	case r.DNS != 0 && len(r.Resolvers) == 0:
		return fmt.Errorf("redirect: it is not known which resolvers the system has")
	}
	for _, p := range slices.Concat(r.Ranges, r.Except) {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("redirect: %s is no range of addresses", p)
		}
		if p.Bits() == 0 || p.Contains(netip.MustParseAddr("127.0.0.1")) || p.Contains(netip.IPv6Loopback()) {
			return fmt.Errorf("redirect: %s has addresses of this machine, which cannot be led elsewhere", p)
		}
	}
	return nil
}

// family returns the ranges of one family, sorted, as a list of nftables or pf; empty for none.
func family(all []netip.Prefix, four bool) string {
	var out []netip.Prefix
	for _, p := range all {
		if p.Addr().Is4() == four {
			out = append(out, p.Masked())
		}
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) })
	return joined(slices.Compact(out))
}

// resolvers returns those of one family.
func (r Rules) resolvers(four bool) string {
	var out []netip.Addr
	for _, a := range r.Resolvers {
		if a = a.Unmap(); a.Is4() == four && !a.IsLoopback() {
			out = append(out, a.WithZone(""))
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return joined(slices.Compact(out))
}

func joined[T fmt.Stringer](list []T) string {
	var out []string
	for _, one := range list {
		out = append(out, one.String())
	}
	return strings.Join(out, ", ")
}

// NFTables returns rules as nft reads them.
func NFTables(r Rules) (string, error) {
	if err := r.check(); err != nil {
		return "", err
	}
	var out strings.Builder
	line := func(format string, values ...any) { fmt.Fprintf(&out, format+"\n", values...) }
	line("table inet %s {", r.Name)
	line("\tflags owner")
	line("\tchain out {")
	// The number of dstnat, a name that nft takes in prerouting alone.
	line("\t\ttype nat hook output priority -100; policy accept;")
	if r.Mark != 0 {
		line("\t\tmeta mark 0x%x return", r.Mark)
	}
	for _, f := range []struct {
		name string
		four bool
	}{{"ip", true}, {"ip6", false}} {
		if list := r.resolvers(f.four); list != "" && r.DNS != 0 {
			line("\t\t%s daddr { %s } meta l4proto { tcp, udp } th dport 53 redirect to :%d", f.name, list, r.DNS)
		}
		if list := family(r.Except, f.four); list != "" {
			line("\t\t%s daddr { %s } return", f.name, list)
		}
		if list := family(r.Ranges, f.four); list != "" {
			line("\t\t%s daddr { %s } meta l4proto tcp redirect to :%d", f.name, list, r.Port)
		}
	}
	line("\t}")
	line("}")
	return out.String(), nil
}

// PF returns rules as pfctl reads them into the anchor com.apple/NAME.
func PF(r Rules) (string, error) {
	if err := r.check(); err != nil {
		return "", err
	}
	if r.User == "" {
		return "", fmt.Errorf("redirect: pf needs a user whose connections pass")
	}
	var translate, pass strings.Builder
	for _, f := range []struct {
		name, loopback string
		four           bool
	}{{"inet", "127.0.0.1", true}, {"inet6", "::1", false}} {
		lead := func(proto, list, port string, to uint16) {
			fmt.Fprintf(&translate, "rdr pass on lo0 %s proto %s from any to { %s }%s -> %s port %d\n", f.name, proto, list, port, f.loopback, to)
			fmt.Fprintf(&pass, "pass out route-to (lo0 %s) %s proto %s from any to { %s }%s user != %s keep state\n", f.loopback, f.name, proto, list, port, r.User)
		}
		if list := r.resolvers(f.four); list != "" && r.DNS != 0 {
			lead("udp", list, " port 53", r.DNS)
			lead("tcp", list, " port 53", r.DNS)
		}
		list := family(r.Ranges, f.four)
		if list == "" {
			continue
		}
		lead("tcp", list, "", r.Port)
		if except := family(r.Except, f.four); except != "" {
			// The last rule that matches counts.
			fmt.Fprintf(&pass, "pass out %s proto tcp from any to { %s } keep state\n", f.name, except)
		}
	}
	return translate.String() + pass.String(), nil
}
