package policy

import (
	"fmt"
	"net/netip"
	"strings"

	"sigs.k8s.io/yaml"
)

// CIDR is a range of addresses that may be reached, or that may not.
type CIDR struct {
	// Name is what people call it; it may be empty.
	Name string
	// Prefix is the range.
	Prefix netip.Prefix
	// Exclude reports whether it may not be reached.
	Exclude bool
}

// String returns the range, with its name if it has one.
func (c CIDR) String() string {
	if c.Name == "" {
		return c.Prefix.String()
	}
	return fmt.Sprintf("%s (%s)", c.Prefix, c.Name)
}

// maxCIDRs bounds a configuration.
const maxCIDRs = 1024

// ParseCIDRs reads the value tunnel.config.cidrs of the chart: version 1 and a list outboundIPs
// of name, cidr and exclude. An empty text has none.
func ParseCIDRs(text string) ([]CIDR, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var file struct {
		Version     int `json:"version"`
		OutboundIPs []struct {
			Name    string `json:"name"`
			CIDR    string `json:"cidr"`
			Exclude bool   `json:"exclude"`
		} `json:"outboundIPs"`
	}
	if err := yaml.UnmarshalStrict([]byte(text), &file); err != nil {
		return nil, fmt.Errorf("tunnel.config.cidrs: %w", err)
	}
	if file.Version != 1 {
		return nil, fmt.Errorf("tunnel.config.cidrs: version is %d: write version: 1", file.Version)
	}
	if len(file.OutboundIPs) > maxCIDRs {
		return nil, fmt.Errorf("tunnel.config.cidrs: outboundIPs has %d entries, %d at most are read", len(file.OutboundIPs), maxCIDRs)
	}
	out := make([]CIDR, 0, len(file.OutboundIPs))
	for i, e := range file.OutboundIPs {
		p, err := netip.ParsePrefix(e.CIDR)
		if err != nil {
			a, bad := netip.ParseAddr(e.CIDR)
			if bad != nil || a.Zone() != "" {
				return nil, fmt.Errorf("tunnel.config.cidrs: outboundIPs[%d].cidr %.80q is no range: write it as 10.0.0.0/8", i, e.CIDR)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p.Addr().Is4In6() {
			return nil, fmt.Errorf("tunnel.config.cidrs: outboundIPs[%d].cidr %.80q is IPv4 written as IPv6: write it as IPv4", i, e.CIDR)
		}
		out = append(out, CIDR{Name: e.Name, Prefix: p.Masked(), Exclude: e.Exclude})
	}
	return out, nil
}
