package redirect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
)

// Anchor returns the name of the anchor of rules: one below com.apple, which the default ruleset
// of macOS evaluates. An anchor beside it would be loaded, but not evaluated.
func Anchor(name string) string { return "com.apple/" + name }

// systemResolver is the user of mDNSResponder, which sends the queries of most programs on macOS.
const systemResolver = "_mdnsresponder"

// PF returns rules in the form that pfctl loads into their Anchor.
//
// Packets of local programs do not pass rdr. So they are first routed to lo0, where they come in
// and pass it; reply-to routes answers back over lo0 when the program uses the address of a VPN's
// interface. Existing connections are not redirected, since a pass rule of pf matches only the
// first packet.
//
// Only IPv4 is redirected: macOS sends nothing from ::1 to an address of another interface, so
// answers over IPv6 would not come back. Queries over IPv6 are refused, and asked again over
// IPv4.
//
// Connections are matched by the user of their socket. Names are resolved for all users by one
// system service with a user of its own, so its queries are redirected too: other users of the
// machine resolve names of the cluster, and their connections are not redirected.
func PF(r Rules) (string, error) {
	if err := r.Check(); err != nil {
		return "", err
	}
	if r.UID == 0 {
		return "", errors.New("redirect: pf redirects connections of a user other than root, since this program connects as root itself: run it by sudo from the account of that user")
	}
	// Queries to this machine itself pass lo0 for every user, so this program's own would loop.
	resolvers := slices.DeleteFunc(Singles(r.Resolvers, true), func(a netip.Addr) bool { return a.IsLoopback() || slices.Contains(r.Own, a) })
	if r.DNS != 0 && len(resolvers) == 0 {
		return "", errors.New("redirect: pf redirects queries to IPv4 addresses of other machines, and no resolver of this machine has such an address: set one in its network settings")
	}
	var tables, translate, filter strings.Builder
	user := fmt.Sprint(r.UID)
	lead := func(proto, to, users string, port uint16) {
		fmt.Fprintf(&translate, "rdr on lo0 inet proto %s from any to %s -> 127.0.0.1 port %d\n", proto, to, port)
		fmt.Fprintf(&filter, "pass in quick on lo0 reply-to lo0 inet proto %s from any to 127.0.0.1 port %d keep state\n", proto, port)
		fmt.Fprintf(&filter, "pass out quick on ! lo0 route-to lo0 inet proto %s from any to %s user %s keep state\n", proto, to, users)
	}
	if r.DNS != 0 {
		fmt.Fprintf(&tables, "table <resolvers> { %s }\n", joined("", resolvers))
		asks := "{ " + user + ", " + systemResolver + " }"
		lead("udp", "<resolvers> port 53", asks, r.DNS)
		lead("tcp", "<resolvers> port 53", asks, r.DNS)
		if len(Singles(r.Resolvers, false)) > 0 {
			fmt.Fprintf(&filter, "block return out quick on ! lo0 inet6 proto { udp, tcp } from any to any port 53 user %s\n", asks)
		}
	}
	if in, out := redirected(r); len(in) > 0 {
		list := joined("", in)
		if len(out) > 0 {
			list += ", " + joined("!", out)
		}
		fmt.Fprintf(&tables, "table <cluster> { %s }\n", list)
		lead("tcp", "<cluster>", user, r.Port)
	}
	return tables.String() + translate.String() + filter.String(), nil
}

// redirected returns the IPv4 ranges that are redirected, and the ranges in them that are not. In a
// table of pf the narrowest range that contains an address counts.
func redirected(r Rules) (in, out []netip.Prefix) {
	single := func(all []netip.Addr) []netip.Prefix {
		return lists.Map(all, func(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) })
	}
	inside := func(all []netip.Prefix) func(netip.Prefix) bool {
		return func(p netip.Prefix) bool {
			return slices.ContainsFunc(all, func(w netip.Prefix) bool { return w.Bits() <= p.Bits() && w.Contains(p.Addr()) })
		}
	}
	out = Family(slices.Concat(r.Except, single(r.Own)), true)
	in = slices.DeleteFunc(Family(slices.Concat(r.Ranges, single(r.Addresses)), true), inside(out))
	within := inside(in)
	return in, slices.DeleteFunc(out, func(p netip.Prefix) bool { return !within(p) })
}

// joined returns a list with a prefix before each item.
func joined[T fmt.Stringer](prefix string, list []T) string {
	return strings.Join(lists.Map(list, func(one T) string { return prefix + one.String() }), ", ")
}

var token = regexp.MustCompile(`(?m)^Token : ([0-9]+)\s*$`)

// Token returns the reference to pf that pfctl -E reports.
func Token(said string) (string, error) {
	found := token.FindStringSubmatch(said)
	if found == nil {
		return "", errors.New("pfctl -E printed no reference to pf")
	}
	return found[1], nil
}

// Lookup is the request DIOCNATLOOK of /dev/pf, _IOWR('D', 23, struct pfioc_natlook). Its
// structure has the source and destination of a connection, and the same before translation, each
// as an address of 16 bytes and a port in the first two of four; then family, protocol, variant,
// direction. All numbers are in network order. The layout is that of XNU, which differs from
// other pf.
const Lookup uint32 = 0xC0000000 | lookupSize<<16 | 'D'<<8 | 23

// lookupSize is the size of struct pfioc_natlook.
const lookupSize = 84

// Offsets in it.
const (
	fromAddr, toAddr, wasToAddr = 0, 16, 48
	fromPort, toPort, wasToPort = 64, 68, 76
	family, protocol, direction = 80, 81, 83
)

const (
	inet = 2 // AF_INET
	tcp  = 6 // IPPROTO_TCP
	out  = 2 // PF_OUT: translated connections are found by the direction of their answers
)

// Asked returns the request for the original destination of a redirected connection of TCP over
// IPv4.
func Asked(from, here netip.AddrPort) (q [lookupSize]byte, err error) {
	a, b := from.Addr().Unmap(), here.Addr().Unmap()
	if !a.Is4() || !b.Is4() {
		return q, fmt.Errorf("the connection from %s to %s is not IPv4, and only IPv4 is redirected", from, here)
	}
	copy(q[fromAddr:], a.AsSlice())
	copy(q[toAddr:], b.AsSlice())
	binary.BigEndian.PutUint16(q[fromPort:], from.Port())
	binary.BigEndian.PutUint16(q[toPort:], here.Port())
	q[family], q[protocol], q[direction] = inet, tcp, out
	return q, nil
}

// Answered returns the original destination in pf's answer.
func Answered(q [lookupSize]byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(q[wasToAddr:])), binary.BigEndian.Uint16(q[wasToPort:]))
}
