package istio

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/keymatch"
)

// Settings are what the installation says.
type Settings struct {
	// ClusterDomain is that of Services, as cluster.local.
	ClusterDomain string
	// Headers are those that carry a key as their whole value, beside baggage and tracestate.
	Headers []string
	// Labels and Annotations are put on a VirtualService while it carries routes of ours, where
	// it has none of that name.
	Labels, Annotations map[string]string
	// Filtered are names of routes that policies apply to, and for each which policy.
	// RefuseFiltered: no routes are derived from these.
	Filtered       map[string]string
	RefuseFiltered bool
	// Inferring are VirtualServices that get no routes while they have one, and the Rollout for
	// which that is so (releases.Inferring).
	Inferring map[types.NamespacedName]types.NamespacedName `json:"-"`
	// Released are Services between which a Rollout moves weights, and that Rollout
	// (releases.Services).
	Released map[types.NamespacedName]types.NamespacedName `json:"-"`
}

// Service is a baseline Service, with the sandboxes that have a Service beside it.
type Service struct {
	Namespace, Name string
	// Ports are all that it has.
	Ports     []int32
	Sandboxes []Sandbox
}

// Sandbox is what has a Service beside a baseline's, for requests with a routing key.
type Sandbox struct {
	Key string
	// Author is the author of what the key belongs to or, if unknown, that object itself. Its routes
	// count in the author's share of a VirtualService. Empty: in no share.
	Author string
	// Mappings are as in an IstioRoute. A Service that stands for a port has the same port.
	Mappings []crdv1.IstioPortMapping
}

// Mesh is what the routes of all VirtualServices follow from.
type Mesh struct {
	settings Settings
	// services are by full host name.
	services map[string]*managed
	// virtualServices are in the order in which Istio prefers them.
	virtualServices []*virtualService
	// inMesh are those of them that sidecars have, by host.
	inMesh map[string][]*virtualService
	// delegating are the routes that lead to a delegate, by the delegate.
	delegating map[types.NamespacedName][]delegating
	hosts      hosts
}

// managed is a Service, ready to be looked up in.
type managed struct {
	Service
	host string
	// sandboxes are by key.
	sandboxes map[string]sandbox
	// findings are of keys that have no route anywhere.
	findings []Finding
}

type sandbox struct {
	author  string
	matches []keymatch.Match
	// to are the full host names of the Services that stand for the ports.
	to map[int32]string
}

// New returns the mesh of the VirtualServices, of which none is changed.
func New(settings Settings, services []Service, virtualServices []*unstructured.Unstructured) *Mesh {
	var all []*Original
	for _, object := range virtualServices {
		all = append(all, Read(object, settings.ClusterDomain))
	}
	return Next(nil, settings, services, all)
}

// Next returns the mesh that follows another one, or nil: what is the same in both is not made
// again, so that RenderAgain knows it. Services with the same name and namespace are one.
func Next(before *Mesh, settings Settings, services []Service, originals []*Original) *Mesh {
	m := &Mesh{
		settings: settings, services: map[string]*managed{},
		inMesh: map[string][]*virtualService{}, delegating: map[types.NamespacedName][]delegating{},
	}
	if before == nil || !reflect.DeepEqual(before.settings, settings) {
		before = &Mesh{}
	}
	for _, s := range together(services) {
		host := m.resolve(s.Name, s.Namespace)
		m.services[host] = m.manage(s, host, before.services[host])
	}
	for _, o := range originals {
		if o.read != nil {
			m.virtualServices = append(m.virtualServices, o.read)
		}
	}
	slices.SortFunc(m.virtualServices, (*virtualService).compare)
	names := map[types.NamespacedName]bool{}
	for _, o := range originals {
		names[o.name] = true
	}
	for _, vs := range m.virtualServices {
		if vs.inMesh() {
			for _, host := range vs.hosts {
				m.inMesh[host] = append(m.inMesh[host], vs)
			}
		}
		for _, route := range vs.spec.GetHttp() {
			if d := route.GetDelegate(); d != nil {
				to := types.NamespacedName{Namespace: cmp.Or(d.GetNamespace(), vs.name.Namespace), Name: d.GetName()}
				m.delegating[to] = append(m.delegating[to], delegating{vs, route})
			}
		}
	}
	m.hosts = m.hostsOf(names)
	return m
}

// together makes one of Services with the same name and namespace.
func together(services []Service) []Service {
	var all []Service
	at := map[types.NamespacedName]int{}
	for _, s := range services {
		id := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
		if i, has := at[id]; has {
			all[i].Sandboxes = slices.Concat(all[i].Sandboxes, s.Sandboxes)
			continue
		}
		at[id] = len(all)
		all = append(all, s)
	}
	return all
}

// manage returns a Service ready to be looked up in: before where that is the same, and else
// with those sandboxes of before that are. before may be nil.
func (m *Mesh) manage(s Service, host string, before *managed) *managed {
	if before == nil {
		before = &managed{}
	}
	if reflect.DeepEqual(before.Service, s) {
		return before
	}
	service := &managed{Service: s, host: host, sandboxes: map[string]sandbox{}}
	for _, of := range s.Sandboxes {
		had, has := before.sandboxes[of.Key]
		if !has {
			var err error
			if had.matches, err = keymatch.Of(of.Key, m.settings.Headers, keymatch.Istio); err != nil {
				service.findings = append(service.findings, Finding{Reason: ReasonKeyNotMatchable, Service: service.id(), Key: of.Key, Lost: true, Message: err.Error()})
				continue
			}
		}
		to := map[int32]string{}
		for _, mapping := range of.Mappings {
			to[mapping.FromPort] = m.resolve(mapping.ToService, s.Namespace)
		}
		service.sandboxes[of.Key] = sandbox{of.Author, had.matches, to}
	}
	return service
}

// ClusterDomain returns that of Services.
func (m *Mesh) ClusterDomain() string { return m.settings.ClusterDomain }

// Kept reports whether a Service, if it is managed, is what it was in the mesh before, which may
// be nil, and the VirtualService that is advised for it has the same name.
func (m *Mesh) Kept(before *Mesh, service types.NamespacedName) bool {
	host := m.resolve(service.Name, service.Namespace)
	return before != nil && m.services[host] == before.services[host] && m.hosts.freeName(service) == before.hosts.freeName(service)
}

// compare orders Services by host.
func (s *managed) compare(other *managed) int { return strings.Compare(s.host, other.host) }

func (s *managed) id() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// keys returns the routing keys of the services' sandboxes, sorted.
func keys(services []*managed) []string {
	all := map[string]bool{}
	for _, s := range services {
		for key := range s.sandboxes {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// resolve returns the full host name that Istio reads a host as in a VirtualService of a
// namespace.
func (m *Mesh) resolve(host, namespace string) string {
	return resolve(host, namespace, m.settings.ClusterDomain)
}

// Resolve returns the full host name of a host in an object of a namespace: only one without a dot
// is short.
func Resolve(host, namespace, clusterDomain string) string {
	return resolve(host, namespace, clusterDomain)
}

func resolve(host, namespace, clusterDomain string) string {
	if host == "" || host == "*" || strings.ContainsAny(host, ".:") {
		return host
	}
	return host + "." + namespace + ".svc." + clusterDomain
}
