package names

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/publicsuffix"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// Table has the names of the cluster. It is safe for concurrent use.
type Table struct {
	mu       sync.RWMutex
	domain   string
	services map[key]*service
	names    map[string]*service
}

type key struct{ namespace, name string }

// has reports whether a Service has a name: its full one, NAME.NAMESPACE.svc, and NAME.NAMESPACE
// unless that could be a site of the public DNS.
func (k key) has(name, whole string) bool {
	short := plain(k.name + "." + k.namespace)
	return name == whole || name == short+".svc" || name == short && !public(k.namespace)
}

// public reports whether a namespace has the name of a top-level domain of the public DNS, such
// as dev, app or io, according to the list of public suffixes in this program.
func public(namespace string) bool {
	for _, name := range []string{plain(namespace), "x." + plain(namespace)} { // Some domains have rules only for names below them.
		if _, icann := publicsuffix.PublicSuffix(name); icann {
			return true
		}
	}
	return false
}

// service is a Service, with its whole name.
type service struct {
	whole     string
	names     []string
	addresses []netip.Addr
	dns       bool // has a port for DNS over TCP
}

// NewTable returns a Table without Services, of a cluster with a domain.
func NewTable(domain string) *Table {
	t := &Table{}
	t.Begin(domain)
	return t
}

// Begin removes all Services.
func (t *Table) Begin(domain string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.domain, t.services, t.names = plain(domain), map[key]*service{}, map[string]*service{}
}

// Change updates Services that have changed, and removes those that were deleted.
func (t *Table) Change(changed []*tunnelv1.Service, gone []*tunnelv1.ServiceName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range gone {
		t.drop(key{g.GetNamespace(), g.GetName()})
	}
	for _, c := range changed {
		k := key{c.GetNamespace(), c.GetName()}
		t.drop(k)
		s := &service{whole: plain(k.name + "." + k.namespace + ".svc." + t.domain)}
		for _, text := range c.GetAddresses() {
			if a, err := netip.ParseAddr(text); err == nil {
				s.addresses = append(s.addresses, a.Unmap())
			}
		}
		for _, p := range c.GetPorts() {
			s.dns = s.dns || p.GetPort() == 53 && p.GetProtocol() == "TCP" && (k.namespace == "kube-system" || k.namespace == "openshift-dns")
		}
		t.services[k] = s
		for _, n := range c.GetDnsNames() {
			if n = plain(n); t.names[n] == nil && k.has(n, s.whole) {
				s.names = append(s.names, n)
				t.names[n] = s
			}
		}
	}
}

func (t *Table) drop(k key) {
	s := t.services[k]
	if s == nil {
		return
	}
	delete(t.services, k)
	for _, n := range s.names {
		delete(t.names, n)
	}
}

// Len returns how many Services there are.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.services)
}

// Public returns the namespaces with names of public domains, in order: their Services have no
// name of two parts.
func (t *Table) Public() (out []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := map[string]bool{}
	for k := range t.services {
		if public(k.namespace) {
			all[k.namespace] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Addresses returns those of all Services.
func (t *Table) Addresses() (out []netip.Addr) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.services {
		out = append(out, s.addresses...)
	}
	return out
}

// DNS returns the host of the cluster's DNS.
func (t *Table) DNS() string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var all []string
	for _, s := range t.services {
		if s.dns {
			all = append(all, s.whole)
		}
	}
	if usual := "kube-dns.kube-system.svc." + t.domain; len(all) == 0 || slices.Contains(all, usual) {
		return usual
	}
	return slices.Min(all)
}

// Verdict is the classification of a name.
type Verdict struct {
	// InCluster reports whether it is a name of the cluster.
	InCluster bool
	// Addresses are its addresses, if they are in memory.
	Addresses []netip.Addr
	// Ask is the name to query in the cluster's DNS.
	Ask string
}

// Judge classifies a name. Names of the cluster are: any name of a Service (key.has), names below
// one without an address, names that end with .svc, and names in the cluster's domain.
func (t *Table) Judge(name string) Verdict {
	name = plain(name)
	t.mu.RLock()
	defer t.mu.RUnlock()
	if s := t.names[name]; s != nil {
		return Verdict{InCluster: true, Addresses: s.addresses, Ask: s.whole}
	}
	for prefix, rest, more := strings.Cut(name, "."); more; {
		if s := t.names[rest]; s != nil && len(s.addresses) == 0 {
			return Verdict{InCluster: true, Ask: prefix + "." + s.whole}
		}
		var label string
		label, rest, more = strings.Cut(rest, ".")
		prefix += "." + label
	}
	switch {
	case name == t.domain || strings.HasSuffix(name, "."+t.domain):
		return Verdict{InCluster: true, Ask: name}
	case strings.HasSuffix(name, ".svc"):
		return Verdict{InCluster: true, Ask: name + "." + t.domain}
	}
	return Verdict{}
}

// plain returns a name in lower case and without the final dot.
func plain(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
