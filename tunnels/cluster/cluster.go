// Package cluster keeps, by watches, the state of the cluster that a tunnel proxy needs: the
// external workloads, the addresses of Services, and the addresses that tunnels must not reach.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tunnels/policy"
)

// Refused is a Service that tunnels must not reach: neither its own addresses nor its endpoints. An
// empty Name is every Service of the namespace.
type Refused struct {
	Namespace, Name string
	// What, Ports and Todo are as in policy.Place.
	What  string
	Ports []uint16
	Todo  string
}

// Config configures a Cluster.
type Config struct {
	// Access reaches the API server. Required.
	Access *rest.Config
	// Domain is that of the cluster's Services. Default: cluster.local.
	Domain string
	// Reach, CIDRs and Namespaces are as in policy.Config.
	Reach      policy.Reach
	CIDRs      []policy.CIDR
	Namespaces []string
	// Refused are Services that cannot be reached, and Places other destinations that cannot.
	Refused []Refused
	Places  []policy.Place
}

// Cluster is the state that was observed last. It is safe for concurrent use.
type Cluster struct {
	cfg   Config
	cache cache.Cache

	mu        sync.Mutex
	workloads map[types.NamespacedName]Workload
	// sandboxes has the UID of each SignadotSandbox.
	sandboxes map[string]types.UID
	// services has the Service with an address, and of the addresses of a Service.
	services  map[netip.Addr]types.NamespacedName
	of        map[types.NamespacedName][]netip.Addr
	endpoints endpoints
	nodes     nodes
	rules     *policy.Config // nil: to be computed again
	changed   wake.Signal
}

// Workload is an external workload.
type Workload struct {
	Namespace, Name, UID string
	// Sandbox is its SignadotSandbox; empty: it has none, or one that does not exist.
	Sandbox string
	// owner is the UID of the sandbox in the owner reference.
	owner types.UID
	// Ports are forwarded to the workstation: those of the baseline, each once, with the local
	// address.
	Ports []Port
}

// Port forwards a port of a baseline to an address at the workstation.
type Port struct {
	Baseline int32
	Local    string
}

// maxPorts bounds the ports of a workload; further ones are ignored.
const maxPorts = 64

// New returns a Cluster without content before Run.
//
// It needs the rights to list and watch Services, SignadotSandboxes and SignadotExternalWorkloads
// everywhere and EndpointSlices in the namespaces of Refused. Where CIDRs include something,
// Namespaces are configured or Reach is ReachCluster, it needs EndpointSlices of these
// namespaces, of all if there are none; with ReachCluster nodes too.
func New(cfg Config) (*Cluster, error) {
	if cfg.Access == nil {
		return nil, errors.New("cluster: Access is missing")
	}
	cfg.Domain = cmp.Or(cfg.Domain, "cluster.local")
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), crdv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	known, err := cache.New(cfg.Access, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&discoveryv1.EndpointSlice{}: {Namespaces: cfg.sliceNamespaces(), Transform: bareSlice},
			&corev1.Node{}:               {Transform: bareNode},
			sandbox():                    {Transform: bareSandbox},
		}})
	if err != nil {
		return nil, fmt.Errorf("watch the cluster: %w", err)
	}
	return &Cluster{cfg: cfg, cache: known, workloads: map[types.NamespacedName]Workload{}, sandboxes: map[string]types.UID{},
		services: map[netip.Addr]types.NamespacedName{}, of: map[types.NamespacedName][]netip.Addr{}, endpoints: newEndpoints(), nodes: nodes{}}, nil
}

// Run keeps the state current until ctx ends, and returns nil then.
func (c *Cluster) Run(ctx context.Context) error {
	if err := c.cache.Start(ctx); err != nil {
		return fmt.Errorf("watch the cluster: %w", err)
	}
	return nil
}

// Synced waits until the caches have synced. It returns an error if they do not.
func (c *Cluster) Synced(ctx context.Context) error {
	objects := []client.Object{&corev1.Service{}, sandbox(), &crdv1.SignadotExternalWorkload{}}
	if len(c.cfg.Refused) > 0 || c.cfg.needsEndpoints() {
		objects = append(objects, &discoveryv1.EndpointSlice{})
	}
	if c.cfg.Reach == policy.ReachCluster {
		objects = append(objects, &corev1.Node{})
	}
	for _, o := range objects {
		informer, err := c.cache.GetInformer(ctx, o)
		if err != nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
		handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: c.see, UpdateFunc: func(_, now any) { c.see(now) }, DeleteFunc: c.miss,
		})
		if err != nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
		for !handler.HasSynced() {
			if !wake.Sleep(ctx, 10*time.Millisecond) {
				return fmt.Errorf("list %T: %w", o, ctx.Err())
			}
		}
	}
	return nil
}

// see records an object.
func (c *Cluster) see(o any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch o := o.(type) {
	case *corev1.Service:
		if o.Spec.Type == corev1.ServiceTypeExternalName {
			c.setService(nameOf(o), nil, false) // an alias of an external name
			return
		}
		c.setService(nameOf(o), addresses(o.Spec.ClusterIPs), true)
	case *discoveryv1.EndpointSlice:
		c.endpoints.set(nameOf(o), sliceOf(o))
		c.rules = nil
	case *corev1.Node:
		c.nodes[o.Name] = nodeAddresses(o)
	case *metav1.PartialObjectMetadata:
		c.sandboxes[o.Name] = o.UID
		c.changed.Send()
	case *crdv1.SignadotExternalWorkload:
		c.workloads[nameOf(o)] = workloadOf(o)
		c.changed.Send()
	}
}

// miss removes a deleted object.
func (c *Cluster) miss(o any) {
	if last, is := o.(toolscache.DeletedFinalStateUnknown); is {
		o = last.Obj
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch o := o.(type) {
	case *corev1.Service:
		c.setService(nameOf(o), nil, false)
	case *discoveryv1.EndpointSlice:
		c.endpoints.set(nameOf(o), slice{})
		c.rules = nil
	case *corev1.Node:
		delete(c.nodes, o.Name)
	case *metav1.PartialObjectMetadata:
		delete(c.sandboxes, o.Name)
		c.changed.Send()
	case *crdv1.SignadotExternalWorkload:
		delete(c.workloads, nameOf(o))
		c.changed.Send()
	}
}

// setService records a Service, whether it exists, and its addresses; a headless one has none.
// c.mu is held.
func (c *Cluster) setService(name types.NamespacedName, now []netip.Addr, there bool) {
	before, was := c.of[name]
	if was == there && slices.Equal(before, now) {
		return
	}
	for _, a := range before {
		if c.services[a] == name { // Another Service may have the address already: a new watch reports existing objects before deletions.
			delete(c.services, a)
		}
	}
	for _, a := range now {
		c.services[a] = name
	}
	if c.of[name] = now; !there {
		delete(c.of, name)
	}
	c.rules = nil
}

// Changed is closed when an external workload changes.
func (c *Cluster) Changed() <-chan struct{} { return c.changed.Next() }

// Workload returns an external workload, and whether there is one.
func (c *Cluster) Workload(namespace, name string) (Workload, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, found := c.workloads[types.NamespacedName{Namespace: namespace, Name: name}]
	if w.Sandbox != "" && c.sandboxes[w.Sandbox] != w.owner {
		w.Sandbox = "" // users can write owner references
	}
	return w, found
}

// Rules returns the policy.
func (c *Cluster) Rules() policy.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rules == nil {
		c.rules = &policy.Config{Reach: c.cfg.Reach, CIDRs: c.cfg.CIDRs, Namespaces: c.cfg.Namespaces, Places: c.places()}
	}
	return *c.rules
}

// places returns the destinations that tunnels must not reach. c.mu is held.
func (c *Cluster) places() []policy.Place {
	all := slices.Clone(c.cfg.Places)
	for _, r := range c.cfg.Refused {
		var at []netip.Addr
		for name := range c.refused(r) {
			at = append(append(at, c.of[name]...), c.endpoints.of(name)...)
		}
		// A place without addresses would match every address.
		if len(at) > 0 {
			all = append(all, policy.Place{What: r.What, Addresses: at, Ports: r.Ports, Todo: r.Todo})
		}
	}
	return all
}

// refused returns the Services of an entry. c.mu is held.
func (c *Cluster) refused(r Refused) map[types.NamespacedName]bool {
	if r.Name != "" {
		return map[types.NamespacedName]bool{{Namespace: r.Namespace, Name: r.Name}: true}
	}
	out := map[types.NamespacedName]bool{}
	for _, names := range []iter.Seq[types.NamespacedName]{maps.Keys(c.of), maps.Keys(c.endpoints.services)} {
		for name := range names {
			if name.Namespace == r.Namespace {
				out[name] = true
			}
		}
	}
	return out
}

// Namespace returns that of the Service with an address or, where there is none, of the Service
// that a host names, if the address is of one of its endpoints: else a Service of type ExternalName, or
// a name that DNS answers otherwise, would count as the namespace that its author chose.
func (c *Cluster) Namespace(address netip.Addr, host string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if service, is := c.services[address.Unmap()]; is {
		return service.Namespace
	}
	if service := c.named(host); slices.Contains(c.endpoints.of(service), address.Unmap()) {
		return service.Namespace
	}
	return ""
}

// Service reports whether a host names a Service, other than one of type ExternalName.
func (c *Cluster) Service(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, is := c.of[c.named(host)]
	return is
}

// Kind returns the kind of an address: a node, a pod behind a Service, or something else.
func (c *Cluster) Kind(address netip.Addr) policy.Kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch address = address.Unmap(); {
	case c.nodes.have(address):
		return policy.KindNode
	case c.endpoints.count[address] > 0:
		return policy.KindPod
	}
	return policy.KindUnknown
}

// named returns the Service that a host names, as Kubernetes writes it: for a pod behind it too.
func (c *Cluster) named(host string) (service types.NamespacedName) {
	if o, _ := policy.Parse(host, c.cfg.Domain); o.Kind == policy.KindService {
		service = types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	}
	return service
}

func nameOf(o client.Object) types.NamespacedName { return client.ObjectKeyFromObject(o) }

func addresses(all []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range all {
		if a, err := netip.ParseAddr(text); err == nil { // a headless Service has "None"
			out = append(out, a.Unmap())
		}
	}
	return out
}

// workloadOf reads an external workload. Ports that its controller refuses are ignored.
func workloadOf(o *crdv1.SignadotExternalWorkload) Workload {
	w := Workload{Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)}
	if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == crdv1.KindSandbox && strings.HasPrefix(owner.APIVersion, crdv1.Group+"/") {
		w.Sandbox, w.owner = owner.Name, owner.UID
	}
	if o.Spec.Tunnel == nil || o.DeletionTimestamp != nil {
		return w
	}
	for _, p := range o.Spec.Tunnel.BaselineToLocals {
		listed := slices.ContainsFunc(w.Ports, func(q Port) bool { return q.Baseline == p.BaselinePort })
		if p.BaselinePort > 0 && p.BaselinePort <= 65535 && !listed && len(w.Ports) < maxPorts {
			w.Ports = append(w.Ports, Port{p.BaselinePort, p.LocalAddress})
		}
	}
	return w
}
