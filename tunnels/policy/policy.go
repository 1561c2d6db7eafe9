// Package policy decides which addresses workstations may reach through a tunnel proxy. It is
// pure: it takes a resolved address and the state of the cluster, and returns the address to dial
// or the reason of a refusal. Callers must dial the address that Judge returned and never resolve
// the name again: the second answer might be an address that was not checked.
//
// In this order:
//
//	never     loopback, link-local, the metadata services of clouds, multicast, addresses that are
//	          not of one host, and IPv6 addresses that embed an IPv4 one (never.go)
//	excluded  ranges that a CIDR of the configuration excludes
//	places    the bus, API servers, the proxies' own ports, the ports of sidecars
//	namespace an address of a Service is subject to the rule of its namespace
//	nodes     with ReachCluster, addresses of nodes are refused unless a CIDR includes them
//	else      addresses in an included CIDR; with ReachCluster pods; with ReachAny every address,
//	          when neither including CIDRs nor namespaces are configured
package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// Reach are the addresses that may be reached in addition to Services and included CIDRs.
type Reach int

const (
	// ReachAny is everything, unless CIDRs include something or Namespaces are configured.
	ReachAny Reach = iota
	// ReachCluster is pods behind Services, and no nodes.
	ReachCluster
)

// Kind is the kind of an address.
type Kind int

// Kinds. An address that is both a pod's and a node's, as with hostNetwork, is a node's.
const (
	KindUnknown Kind = iota
	KindPod
	KindNode
)

// Config is the policy.
type Config struct {
	// Reach is what may be reached without a CIDR.
	Reach Reach
	// CIDRs are ranges that may be reached, or that may not.
	CIDRs []CIDR
	// Namespaces restrict the Services that may be reached to those of these namespaces; none:
	// all.
	Namespaces []string
	// Places may not be reached, regardless of CIDRs and Namespaces.
	Places []Place
}

// Place is a destination that tunnels must not reach.
type Place struct {
	// What describes it in messages, with an article: "the event bus".
	What string
	// Addresses are those that it has; none: each address there is.
	Addresses []netip.Addr
	// Ports are those that are refused there; none: every port.
	Ports []uint16
	// Todo is the remedy, as a sentence; empty: there is none.
	Todo string
}

// Destination is the destination of a requested connection.
type Destination struct {
	// Host is the requested name or address, for messages.
	Host string
	// Address is the address to which Host was resolved.
	Address netip.AddrPort
	// Namespace is that of the Service that has the address or, where none has, of the
	// Service that Host names; empty: of none.
	Namespace string
	// Kind is that of the address, as far as ReachCluster needs it.
	Kind Kind
}

// Judge returns the address to dial, or why it may not be reached. It is the address of the
// destination; an IPv4-mapped IPv6 address is returned as IPv4.
func (c Config) Judge(d Destination) (netip.AddrPort, *tunnelv1.Refused) {
	address, port := d.Address.Addr().Unmap(), d.Address.Port()
	refuse := func(format string, args ...any) (netip.AddrPort, *tunnelv1.Refused) {
		return netip.AddrPort{}, Refuse(d, fmt.Sprintf(format, args...))
	}
	if port == 0 {
		return refuse("port 0 is none: give a port between 1 and 65535")
	}
	if problem := Never(address, false); problem != "" {
		return refuse("it %s, which tunnels do not reach", problem)
	}
	// An embedded address is checked like the address itself.
	for _, a := range faces(address) {
		if i := slices.IndexFunc(c.CIDRs, func(r CIDR) bool { return r.Exclude && r.Prefix.Contains(a) }); i >= 0 {
			return refuse("the configuration excludes %s: change tunnel.config.cidrs to reach it", c.CIDRs[i])
		}
		for _, p := range c.Places {
			if p.has(a, port) {
				return refuse("that is %s, which tunnels do not reach%s", p.What, p.todo())
			}
		}
	}
	if why := c.outside(d, address); why != "" {
		return refuse("%s", why)
	}
	return netip.AddrPortFrom(address, port), nil
}

// outside returns why an address is outside of what the configuration allows; empty: it is not.
func (c Config) outside(d Destination, address netip.Addr) string {
	namespace := d.Namespace
	if namespace != "" && len(c.Namespaces) > 0 && !slices.Contains(c.Namespaces, namespace) {
		return fmt.Sprintf("namespace %s is none of those that may be reached: add it to allowedNamespaces", namespace)
	}
	includes, included := false, false
	for _, r := range c.CIDRs {
		includes = includes || !r.Exclude
		included = included || !r.Exclude && r.Prefix.Contains(address)
	}
	node := c.Reach == ReachCluster && d.Kind == KindNode
	switch {
	case included, namespace != "" && !node:
		return ""
	case node:
		return "it is the address of a node: include it in tunnel.config.cidrs to reach it"
	case c.Reach == ReachCluster && len(c.Namespaces) == 0 && d.Kind == KindPod:
		return ""
	case c.Reach == ReachCluster && len(c.Namespaces) == 0 && !includes:
		return "only Services and the pods behind them may be reached, and it is neither: include it in tunnel.config.cidrs, or set that to any"
	case includes:
		return "no CIDR of the configuration includes it, and it is no Service: add it to tunnel.config.cidrs"
	case len(c.Namespaces) > 0:
		return "only certain namespaces may be reached, and it is not known to be of one: ask for it by its Service's name, or add it to tunnel.config.cidrs"
	}
	return ""
}

// has reports whether a place has an address and port.
func (p Place) has(address netip.Addr, port uint16) bool {
	at := len(p.Addresses) == 0 || slices.ContainsFunc(p.Addresses, func(a netip.Addr) bool { return a.Unmap() == address })
	return at && (len(p.Ports) == 0 || slices.Contains(p.Ports, port))
}

func (p Place) todo() string {
	if p.Todo == "" {
		return ""
	}
	return ". " + strings.TrimSuffix(p.Todo, ".")
}

// Refuse returns the refusal of a destination, for a reason.
func Refuse(d Destination, why string) *tunnelv1.Refused {
	what := fmt.Sprintf("%.253q", d.Host)
	if text := d.Address.String(); d.Address.IsValid() && !strings.Contains(text, d.Host) {
		what += " (" + text + ")"
	} else if d.Address.IsValid() {
		what = text
	}
	return &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_DESTINATION,
		Message: fmt.Sprintf("%s cannot be reached through a tunnel: %s.", what, strings.TrimSuffix(why, "."))}
}

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

// The kinds of Parse.
const KindService, KindDeployment, KindRollout = "Service", "Deployment", "Rollout"

// Parse returns what a host names: a Service, by its own name or that of a pod behind it, a Deployment
// (NAME.NAMESPACE.deploy) or a Rollout (NAME.NAMESPACE.rollout); for an address an ObjectRef without a kind. It
// returns false for other names. domain is that of the cluster's Services.
func Parse(host, domain string) (crdv1.ObjectRef, bool) {
	if _, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); err == nil {
		return crdv1.ObjectRef{}, true
	}
	host, inDomain := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), "."+strings.ToLower(domain))
	parts := strings.Split(host, ".")
	switch last := len(parts) - 1; {
	case slices.Contains(parts, ""):
	case last == 1 && !inDomain:
		return crdv1.ObjectRef{Kind: KindService, Namespace: parts[1], Name: parts[0]}, true
	case (last == 2 || last == 3) && parts[last] == "svc":
		return crdv1.ObjectRef{Kind: KindService, Namespace: parts[last-1], Name: parts[last-2]}, true
	case last == 2 && parts[2] == "deploy":
		return crdv1.ObjectRef{Kind: KindDeployment, Namespace: parts[1], Name: parts[0]}, true
	case last == 2 && parts[2] == "rollout":
		return crdv1.ObjectRef{Kind: KindRollout, Namespace: parts[1], Name: parts[0]}, true
	}
	return crdv1.ObjectRef{}, false
}
