package cluster

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tunnels/policy"
)

// needsEndpoints reports whether the answers depend on the endpoints of all Services.
func (c Config) needsEndpoints() bool {
	return c.Reach == policy.ReachCluster || len(c.Namespaces) > 0 || slices.ContainsFunc(c.CIDRs, func(r policy.CIDR) bool { return !r.Exclude })
}

// sliceNamespaces returns the namespaces of which EndpointSlices are watched; nil: all.
func (c Config) sliceNamespaces() map[string]cache.Config {
	if c.needsEndpoints() && len(c.Namespaces) == 0 {
		return nil
	}
	out := map[string]cache.Config{}
	for _, r := range c.Refused {
		out[r.Namespace] = cache.Config{}
	}
	for _, n := range c.Namespaces {
		out[n] = cache.Config{}
	}
	return out
}

// sandbox returns the watched part of sandboxes: their metadata.
func sandbox() *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(crdv1.GroupVersion().WithKind(crdv1.KindSandbox))
	return out
}

// bareSandbox keeps only the name and the UID.
func bareSandbox(o any) (any, error) {
	if s, is := o.(*metav1.PartialObjectMetadata); is {
		s.ObjectMeta = metav1.ObjectMeta{Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion}
	}
	return o, nil
}

// bareSlice keeps only the Service and the addresses.
func bareSlice(o any) (any, error) {
	s, is := o.(*discoveryv1.EndpointSlice)
	if !is {
		return o, nil
	}
	out := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion,
		Labels: map[string]string{discoveryv1.LabelServiceName: s.Labels[discoveryv1.LabelServiceName]}}}
	for _, e := range s.Endpoints {
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{Addresses: e.Addresses})
	}
	return out, nil
}

// bareNode keeps only the addresses.
func bareNode(o any) (any, error) {
	n, is := o.(*corev1.Node)
	if !is {
		return o, nil
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion}, Status: corev1.NodeStatus{Addresses: n.Status.Addresses}}, nil
}

// slice is the content of an EndpointSlice.
type slice struct {
	service   types.NamespacedName
	addresses []netip.Addr
}

func sliceOf(o *discoveryv1.EndpointSlice) slice {
	s := slice{service: types.NamespacedName{Namespace: o.Namespace, Name: o.Labels[discoveryv1.LabelServiceName]}}
	for _, e := range o.Endpoints {
		s.addresses = append(s.addresses, addresses(e.Addresses)...)
	}
	return s
}

// endpoints are the EndpointSlices by name, the names of each Service's, and how often an address is
// in one.
type endpoints struct {
	slices   map[types.NamespacedName]slice
	services map[types.NamespacedName]map[types.NamespacedName]bool
	count    map[netip.Addr]int
}

func newEndpoints() endpoints {
	return endpoints{map[types.NamespacedName]slice{}, map[types.NamespacedName]map[types.NamespacedName]bool{}, map[netip.Addr]int{}}
}

// set replaces a slice; one without a Service is removed.
func (e endpoints) set(name types.NamespacedName, now slice) {
	before := e.slices[name]
	for _, a := range before.addresses {
		if e.count[a]--; e.count[a] <= 0 {
			delete(e.count, a)
		}
	}
	if of := e.services[before.service]; of != nil {
		if delete(of, name); len(of) == 0 {
			delete(e.services, before.service)
		}
	}
	if now.service.Name == "" {
		delete(e.slices, name)
		return
	}
	e.slices[name] = now
	for _, a := range now.addresses {
		e.count[a]++
	}
	if e.services[now.service] == nil {
		e.services[now.service] = map[types.NamespacedName]bool{}
	}
	e.services[now.service][name] = true
}

// of returns the addresses behind a Service.
func (e endpoints) of(service types.NamespacedName) (out []netip.Addr) {
	for name := range e.services[service] {
		out = append(out, e.slices[name].addresses...)
	}
	return out
}

// nodes are the addresses of nodes, by name.
type nodes map[string][]netip.Addr

func nodeAddresses(n *corev1.Node) []netip.Addr {
	return addresses(lists.Map(n.Status.Addresses, func(a corev1.NodeAddress) string { return a.Address }))
}

func (n nodes) have(address netip.Addr) bool {
	for _, all := range n {
		if slices.Contains(all, address) {
			return true
		}
	}
	return false
}
