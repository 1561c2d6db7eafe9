package policy

import (
	"fmt"
	"net/netip"
	"strings"

	"sigs.k8s.io/yaml"
)

// CIDR is a range of addresses that may be reached, or that may not.
type CIDR struct {
	// Name is its name for people; it may be empty.
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

// reaches are the texts of each Reach.
var reaches = map[string]Reach{"": ReachAny, "any": ReachAny, "cluster": ReachCluster}

// ParseCIDRs reads the value tunnel.config.cidrs of the chart: "any", "cluster", or version 1, a list
// outboundIPs of name, cidr and exclude, and reach, which is any or cluster. An empty text means any.
func ParseCIDRs(text string) (Reach, []CIDR, error) {
	text = strings.TrimSpace(text)
	if reach, is := reaches[text]; is {
		return reach, nil, nil
	}
	reach, all, err := parseFile(text)
	if err != nil {
		return 0, nil, err
	}
	return reach, all, nil
}

func parseFile(text string) (Reach, []CIDR, error) {
	var file struct {
		Version     int    `json:"version"`
		Reach       string `json:"reach"`
		OutboundIPs []struct {
			Name    string `json:"name"`
			CIDR    string `json:"cidr"`
			Exclude bool   `json:"exclude"`
		} `json:"outboundIPs"`
	}
	if err := yaml.UnmarshalStrict([]byte(text), &file); err != nil {
		return 0, nil, fmt.Errorf("tunnel.config.cidrs: %w", err)
	}
	if file.Version != 1 {
		return 0, nil, fmt.Errorf("tunnel.config.cidrs: version is %d: write version: 1", file.Version)
	}
	reach, known := reaches[file.Reach]
	if !known {
		return 0, nil, fmt.Errorf("tunnel.config.cidrs: reach is %.80q: write any or cluster", file.Reach)
	}
	if len(file.OutboundIPs) > maxCIDRs {
		return 0, nil, fmt.Errorf("tunnel.config.cidrs: outboundIPs has %d entries, %d at most are read", len(file.OutboundIPs), maxCIDRs)
	}
	out := make([]CIDR, 0, len(file.OutboundIPs))
	for i, e := range file.OutboundIPs {
		p, err := netip.ParsePrefix(e.CIDR)
		if err != nil {
			a, bad := netip.ParseAddr(e.CIDR)
			if bad != nil || a.Zone() != "" {
				return 0, nil, fmt.Errorf("tunnel.config.cidrs: outboundIPs[%d].cidr %.80q is no range: write it as 10.0.0.0/8", i, e.CIDR)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p.Addr().Is4In6() {
			return 0, nil, fmt.Errorf("tunnel.config.cidrs: outboundIPs[%d].cidr %.80q is IPv4 written as IPv6: write it as IPv4", i, e.CIDR)
		}
		out = append(out, CIDR{Name: e.Name, Prefix: p.Masked(), Exclude: e.Exclude})
	}
	return reach, out, nil
}
