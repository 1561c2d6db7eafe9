package istio

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// hosts are the names and hosts that VirtualServices use.
type hosts struct {
	// names are the names of all VirtualServices, unreadable ones included.
	names map[types.NamespacedName]bool
	// deciding are the VirtualServices that sidecars use for the host of a managed Service, by host.
	deciding map[string]deciding
}

// deciding are VirtualServices in Istio's order of precedence, with the one of their hosts that includes a
// Service: a wildcard, or its full host name.
type deciding struct {
	host string
	by   []*virtualService
}

// hostsOf returns the VirtualServices that sidecars use for the hosts of managed Services. A host without
// a wildcard precedes one with, and a longer one a shorter.
// Source: computeWildcardHostVirtualServiceIndex of Istio's pilot/pkg/model/sidecar.go.
func (m *Mesh) hostsOf(names map[types.NamespacedName]bool) hosts {
	h := hosts{names: names, deciding: map[string]deciding{}}
	var wild []string
	for host := range m.inMesh {
		if isWild(host) {
			wild = append(wild, host)
		}
	}
	// Of the same length, only one includes a given host.
	slices.SortFunc(wild, func(a, b string) int { return len(b) - len(a) })
	for host := range m.services {
		if by := m.inMesh[host]; len(by) > 0 {
			h.deciding[host] = deciding{host, by}
		} else if i := slices.IndexFunc(wild, func(w string) bool { return covers(w, host) }); i >= 0 {
			h.deciding[host] = deciding{wild[i], m.inMesh[wild[i]]}
		}
	}
	return h
}

// hostedBy returns the managed Services with hosts for which sidecars use a VirtualService, or one that
// delegates to it, sorted by host. The Mesh can contain another version of the VirtualService.
func (m *Mesh) hostedBy(vs *virtualService) []*managed {
	roots := []*virtualService{vs}
	for _, d := range m.rootsOf(vs) {
		roots = append(roots, d.root)
	}
	all := map[string]*managed{}
	for _, root := range roots {
		if !root.inMesh() {
			continue
		}
		for _, host := range root.hosts {
			if !isWild(host) {
				all[host] = m.services[host]
				continue
			}
			for of, s := range m.services {
				if covers(host, of) && len(m.hosts.deciding[of].host) <= len(host) {
					all[of] = s
				}
			}
		}
	}
	maps.DeleteFunc(all, func(_ string, s *managed) bool { return s == nil })
	return slices.SortedFunc(maps.Values(all), (*managed).compare)
}

func isWild(host string) bool { return strings.HasPrefix(host, "*") }

// covers reports whether a host of a VirtualService equals a full host name or is a wildcard for it.
func covers(host, name string) bool {
	return host == name || isWild(host) && strings.HasSuffix(name, host[1:])
}

// freeName returns a name for a VirtualService of a Service, in the namespace of the Service, that no
// VirtualService has.
func (h hosts) freeName(service types.NamespacedName) string {
	name := service.Name
	for i := 1; h.names[types.NamespacedName{Namespace: service.Namespace, Name: name}]; i++ {
		name = service.Name + "-routes"
		if i > 1 {
			name = fmt.Sprintf("%s-%d", name, i)
		}
	}
	return name
}

// serving returns the Services with a sandbox of a key to which a VirtualService routes requests for
// the host of another Service.
func (m *Mesh) serving(r *Rendering, service types.NamespacedName, key string) []*managed {
	var all []*managed
	for _, to := range r.hosts[service] {
		s := m.services[m.resolve(to.Name, to.Namespace)]
		if s == nil {
			continue
		}
		if _, has := s.sandboxes[key]; has {
			all = append(all, s)
		}
	}
	return all
}
