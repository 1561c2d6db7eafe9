package policy

import (
	"net/netip"
	"slices"
)

func prefixes(all ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(all))
	for i, text := range all {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

var (
	// metadata are the addresses at which clouds serve instance metadata and credentials to every
	// process of a node: beside 169.254.169.254, which is link-local.
	metadata = prefixes(
		"fd00:ec2::/32",      // Amazon
		"fd20:ce::/32",       // Google
		"168.63.129.16/32",   // Azure
		"100.100.100.200/32", // Alibaba
		"192.0.0.192/32",     // Oracle
	)
	// noHost are ranges with no address of one host.
	noHost = prefixes("0.0.0.0/8", "240.0.0.0/4", "::/128")
	// hiding are ranges of IPv6 addresses that embed an IPv4 address, and that are not used
	// within a cluster: IPv4-compatible, -translated, NAT64 of a local prefix, Teredo and 6to4.
	hiding = prefixes("::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "2001::/32", "2002::/16")
	// nat64 is the prefix under which clusters with only IPv6 reach IPv4 addresses; the last four
	// bytes are the IPv4 address.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// Never returns why tunnels refuse an address, which must be unmapped; empty: they do not. With
// loopback set loopback addresses are accepted, as by workstations, but none that is embedded in
// another address.
func Never(a netip.Addr, loopback bool) string {
	if loopback && a.IsLoopback() {
		return ""
	}
	for _, face := range faces(a) {
		if problem := neverAs(face); problem != "" {
			return problem
		}
	}
	return ""
}

func neverAs(a netip.Addr) string {
	in := func(all []netip.Prefix) bool {
		return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	switch {
	case !a.IsValid():
		return "is no address"
	case a.Zone() != "":
		return "has a zone"
	case a.IsUnspecified():
		return "is the unspecified address"
	case a.IsLoopback():
		return "is a loopback address"
	case a.IsLinkLocalUnicast():
		return "is a link-local address"
	case a.IsMulticast():
		return "is a multicast address"
	case in(metadata):
		return "is the metadata service of a cloud"
	case in(noHost):
		return "is the address of no host"
	case in(hiding), isatap(a):
		return "hides an IPv4 address"
	}
	return ""
}

// faces returns an address, and the IPv4 address that it embeds, if any.
func faces(a netip.Addr) []netip.Addr {
	if !nat64.Contains(a) {
		return []netip.Addr{a}
	}
	b := a.As16()
	return []netip.Addr{a, netip.AddrFrom4([4]byte(b[12:]))}
}

// isatap reports whether an address has an interface identifier of ISATAP, the end of which is
// an IPv4 address.
func isatap(a netip.Addr) bool {
	if !a.Is6() {
		return false
	}
	b := a.As16()
	return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}
