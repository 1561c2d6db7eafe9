package istio

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/keymatch"
)

// Settings are the settings of the installation and of the cluster.
type Settings struct {
	// ClusterDomain is the domain of Services, such as cluster.local.
	ClusterDomain string
	// Headers carry a key as their whole value, in addition to baggage and tracestate.
	Headers []string
	// Labels and Annotations are added to a VirtualService while it has derived routes, unless it has
	// one with the name.
	Labels, Annotations map[string]string
	// Filtered maps names of routes that policies apply to, to the policies. With RefuseFiltered, no
	// routes are derived from these.
	Filtered       map[string]string
	RefuseFiltered bool
	// Inferring maps VirtualServices that get no derived routes while they have one route, to the
	// Rollout that requires this (releases.Inferring).
	Inferring map[types.NamespacedName]types.NamespacedName `json:"-"`
	// Released maps Services between which a Rollout moves weights, to the Rollout
	// (releases.Services).
	Released map[types.NamespacedName]types.NamespacedName `json:"-"`
}

// Service is a baseline Service, with the sandboxes that replace it.
type Service struct {
	Namespace, Name string
	// Ports are all ports of the Service.
	Ports     []int32
	Sandboxes []Sandbox
}

// Sandbox replaces a baseline Service for requests with a routing key.
type Sandbox struct {
	Key string
	// Author is the author of the object that the key belongs to or, if unknown, that object. The
	// routes count towards the author's share of a VirtualService. Empty means no limit.
	Author string
	// Mappings are those of an IstioRoute. A Service that replaces a port has the same port.
	Mappings []crdv1.IstioPortMapping
}

// Mesh is the state from which the routes of all VirtualServices are rendered.
type Mesh struct {
	settings Settings
	// services are the managed Services by full host name.
	services map[string]*managed
	// virtualServices are in Istio's order of precedence.
	virtualServices []*virtualService
	// inMesh are the VirtualServices that apply to sidecars, by host.
	inMesh map[string][]*virtualService
	// delegating are the routes with a delegate, by the delegate.
	delegating map[types.NamespacedName][]delegating
	hosts      hosts
}

// managed is a Service with indexes.
type managed struct {
	Service
	host string
	// sandboxes are the sandboxes by routing key.
	sandboxes map[string]sandbox
	// findings are about keys that cannot be matched.
	findings []Finding
}

type sandbox struct {
	author  string
	matches []keymatch.Match
	// to are the full host names of the Services that replace the ports.
	to map[int32]string
}

// New returns the Mesh of the VirtualServices. It does not change them.
func New(settings Settings, services []Service, virtualServices []*unstructured.Unstructured) *Mesh {
	all := lists.Map(virtualServices, func(object *unstructured.Unstructured) *Original { return Read(object, settings.ClusterDomain) })
	return Next(nil, settings, services, all)
}

// Next returns a Mesh that reuses the unchanged Services of before, so that RenderAgain detects that
// they are unchanged. before can be nil. Services with the same name and namespace are merged.
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
	names := lists.Set(lists.Map(originals, func(o *Original) types.NamespacedName { return o.name }))
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

// together merges Services with the same name and namespace.
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

// manage returns a Service with indexes: before if it is unchanged, otherwise a new one that reuses the
// key matches of before. before can be nil.
func (m *Mesh) manage(s Service, host string, before *managed) *managed {
	before = cmp.Or(before, &managed{})
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

// ClusterDomain returns the domain of Services.
func (m *Mesh) ClusterDomain() string { return m.settings.ClusterDomain }

// Kept reports whether a Service is unchanged since before: its content, if it is managed, and the name
// of the VirtualService that is advised for it. If before is nil, it returns false.
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

// resolve returns the full host name to which Istio resolves a host in a VirtualService of a namespace.
func (m *Mesh) resolve(host, namespace string) string {
	return resolve(host, namespace, m.settings.ClusterDomain)
}

// Resolve returns the full host name to which Istio resolves a host in an object of a namespace. Only a
// host without a dot is completed.
func Resolve(host, namespace, clusterDomain string) string {
	return resolve(host, namespace, clusterDomain)
}

func resolve(host, namespace, clusterDomain string) string {
	if host == "" || host == "*" || strings.ContainsAny(host, ".:") {
		return host
	}
	return host + "." + namespace + ".svc." + clusterDomain
}
