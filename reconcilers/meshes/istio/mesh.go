package istio

import (
	"cmp"
	"maps"
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
	// delegating are the routes that lead to a delegate, by the delegate.
	delegating map[types.NamespacedName][]delegating
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
	matches []keymatch.Match
	// to are the full host names of the Services that stand for the ports.
	to map[int32]string
}

// New returns the mesh of the VirtualServices, of which none is changed. Services with the
// same name and namespace are one.
func New(settings Settings, services []Service, virtualServices []*unstructured.Unstructured) *Mesh {
	m := &Mesh{settings: settings, services: map[string]*managed{}, delegating: map[types.NamespacedName][]delegating{}}
	for _, s := range services {
		m.manage(s)
	}
	for _, object := range virtualServices {
		if vs, err := m.read(strip(object.Object)); err == nil {
			m.virtualServices = append(m.virtualServices, vs)
		}
	}
	slices.SortFunc(m.virtualServices, (*virtualService).compare)
	for _, vs := range m.virtualServices {
		for _, route := range vs.spec.GetHttp() {
			if d := route.GetDelegate(); d != nil {
				to := types.NamespacedName{Namespace: cmp.Or(d.GetNamespace(), vs.name.Namespace), Name: d.GetName()}
				m.delegating[to] = append(m.delegating[to], delegating{vs, route})
			}
		}
	}
	return m
}

func (m *Mesh) manage(s Service) {
	service := &managed{Service: s, host: m.resolve(s.Name, s.Namespace), sandboxes: map[string]sandbox{}}
	if before := m.services[service.host]; before != nil {
		service = before
	}
	m.services[service.host] = service
	for _, of := range s.Sandboxes {
		matches, err := keymatch.Of(of.Key, m.settings.Headers, keymatch.Istio)
		if err != nil {
			service.findings = append(service.findings, Finding{Reason: ReasonKeyNotMatchable, Service: service.id(), Key: of.Key, Lost: true, Message: err.Error()})
			continue
		}
		to := map[int32]string{}
		for _, mapping := range of.Mappings {
			to[mapping.FromPort] = m.resolve(mapping.ToService, s.Namespace)
		}
		service.sandboxes[of.Key] = sandbox{matches, to}
	}
}

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
// namespace: only one without a dot is short.
func (m *Mesh) resolve(host, namespace string) string {
	if host == "" || host == "*" || strings.ContainsAny(host, ".:") {
		return host
	}
	return host + "." + namespace + ".svc." + m.settings.ClusterDomain
}
