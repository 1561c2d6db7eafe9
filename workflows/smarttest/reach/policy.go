// Package reach decides which addresses a Smart Test can connect to, and connects.
//
// The address is checked after the name was resolved, and the connection is made to that address: a name that resolves
// otherwise a moment later changes nothing. Through a proxy, the proxy gets the checked address too (CONNECT), and the Host of
// requests is unchanged.
package reach

import (
	"fmt"
	"net/netip"
)

// metadata are networks with services that hosts and clouds give without credentials, besides link-local ones.
var metadata = []netip.Prefix{netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32")}

// carriers are networks with addresses of IPv4 in them, at an offset in bytes: NAT64, 6to4, and the compatible form.
var carriers = map[netip.Prefix]int{
	netip.MustParsePrefix("64:ff9b::/96"): 12, netip.MustParsePrefix("64:ff9b:1::/48"): 12,
	netip.MustParsePrefix("2002::/16"): 2, netip.MustParsePrefix("::/96"): 12,
}

// Refused is the error for an address that a test cannot connect to.
type Refused struct {
	Host    string
	Address netip.Addr
	Reason  string
}

// Error implements error.
func (r *Refused) Error() string {
	return fmt.Sprintf("%s is %s (%s): tests cannot connect to it", r.Host, r.Reason, r.Address)
}

// Check returns why a test cannot connect to an address; empty: it can. own are the addresses of this host.
func Check(a netip.Addr, own func(netip.Addr) bool) string {
	a = a.Unmap().WithZone("")
	switch first := a.As16()[12]; {
	case a.IsLoopback():
		return "a loopback address"
	case a.IsUnspecified(), a.Is4() && first == 0, own(a):
		return "an address of this host"
	case a.IsLinkLocalUnicast():
		return "a link-local address, where clouds serve metadata"
	case a.IsMulticast(), a.Is4() && first == 255:
		return "no address of one host"
	}
	for _, network := range metadata {
		if network.Contains(a) {
			return "an address where clouds serve metadata"
		}
	}
	for network, at := range carriers {
		if b := a.As16(); network.Contains(a) {
			return Check(netip.AddrFrom4([4]byte(b[at:at+4])), own)
		}
	}
	return ""
}
