package gatewayadapter

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/reconcilers/meshes/releases"
	"switchyard.dev/reconcilers/policies"
)

// Kinds that are read, in the versions that all requests are converted to, with the names of
// their CustomResourceDefinitions. A cluster without the last three has none of their objects.
var (
	HTTPRoutes      = gatewayv1.SchemeGroupVersion.WithKind("HTTPRoute")
	GRPCRoutes      = gatewayv1.SchemeGroupVersion.WithKind("GRPCRoute")
	ReferenceGrants = schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: "v1beta1", Kind: "ReferenceGrant"}

	// BackendTLSPolicies are v1 from Gateway API 1.4 on. Where the version is missing, none are copied.
	BackendTLSPolicies = gatewayv1.SchemeGroupVersion.WithKind(gatewayapi.KindBackendTLSPolicy)

	Definitions = map[schema.GroupVersionKind]string{
		HTTPRoutes: "httproutes.gateway.networking.k8s.io", GRPCRoutes: "grpcroutes.gateway.networking.k8s.io",
		ReferenceGrants: "referencegrants.gateway.networking.k8s.io", BackendTLSPolicies: "backendtlspolicies.gateway.networking.k8s.io",
	}
)

// Reasons of conditions about the Gateway API as a whole.
const (
	// ReasonNotInstalled: the cluster has no HTTPRoutes.
	ReasonNotInstalled = "GatewayAPINotInstalled"
	// ReasonUnreadable: its objects cannot be read.
	ReasonUnreadable = "RoutesUnreadable"
)

// route is an HTTPRoute, a GRPCRoute or a BackendTLSPolicy, of which one is not nil.
type route struct {
	object   gatewayapi.Object
	meta     *metav1.ObjectMeta
	statuses []gatewayv1.RouteParentStatus
	http     *gatewayv1.HTTPRoute
	grpc     *gatewayv1.GRPCRoute
	tls      *gatewayv1.BackendTLSPolicy
}

// derivedFor reports whether it is derived for a routing key.
func (r *route) derivedFor(key string) bool {
	return gatewayapi.IsDerived(r.meta) && r.meta.Annotations[crdv1.AnnotationRoutingKey] == key
}

// cluster has the objects of the Gateway API, from one sync to the next.
type cluster struct {
	// parsed are all objects by UID, so that each is parsed once for each of its versions.
	parsed map[types.UID]parsed
	// trouble is why nothing is known; nil when it is.
	trouble *condition.Condition
	// unreadTLS is why BackendTLSPolicies are not known; empty if they are.
	unreadTLS string
	// baselines are the owners' routes, derived the operator's by routing key.
	baselines gatewayapi.Routes
	derived   map[string][]*route
	// all are both, by name.
	all    map[gatewayapi.Object]*route
	grants []*gatewayv1.ReferenceGrant
	// unreadable are routes that do not match the schema known to this program.
	unreadable []unreadable
	// policies are those that may apply to routes.
	policies []policies.Policy
	settings Settings
	// releases are the selectors of Argo Rollouts for the routes in which they set weights.
	releases []releases.Selector
	// namespaces are those that may be read; empty means all.
	namespaces []string
	// revision counts the changes of the inputs common to all keys: the baselines except for their
	// status, the grants, the policies, and the ports of the Services that baselines name.
	revision int
	salient  salient
}

// parsed is an object in its type.
type parsed struct {
	version string
	object  any
}

// unreadable is a route that cannot be parsed, and why.
type unreadable struct {
	object  gatewayapi.Object
	content map[string]any
	err     error
}

// mentions reports whether value, or any value within it, is a map with this "name".
func mentions(value any, name string) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, func(one any) bool { return mentions(one, name) })
	case map[string]any:
		if v["name"] == name {
			return true
		}
		for _, one := range v {
			if mentions(one, name) {
				return true
			}
		}
	}
	return false
}

// salient has the inputs common to all keys.
type salient struct {
	routes map[types.UID]int64
	meta   map[types.UID][3]map[string]string
	grants map[types.UID]int64
	// policies are the generations of those that are read.
	policies map[types.UID]int64
	ports    map[types.NamespacedName][]int32
	// plugins are the values of policies.PluginsAnnotation of Services that have it.
	plugins map[types.NamespacedName]string
	// releases are the selectors of Rollouts.
	releases string
}

// read reads everything of the Gateway API.
func (c *cluster) read(ctx context.Context, from client.Reader, kinds meshes.Kinds) error {
	c.trouble, c.unreadable = nil, nil
	after := map[types.UID]parsed{}
	http, err := objects[gatewayv1.HTTPRoute](ctx, c, after, from, kinds, HTTPRoutes)
	if err != nil || c.trouble != nil {
		return err
	}
	grpc, err := objects[gatewayv1.GRPCRoute](ctx, c, after, from, kinds, GRPCRoutes)
	if err != nil || c.trouble != nil {
		return err
	}
	if c.grants, err = objects[gatewayv1.ReferenceGrant](ctx, c, after, from, kinds, ReferenceGrants); err != nil || c.trouble != nil {
		return err
	}
	tls, err := objects[gatewayv1.BackendTLSPolicy](ctx, c, after, from, kinds, BackendTLSPolicies)
	if err != nil {
		return err
	}
	if c.unreadTLS = ""; c.trouble != nil { // Routes are derived without copies of them.
		c.unreadTLS, c.trouble = c.trouble.Message, nil
	}
	read, err := c.readPolicies(ctx, from, kinds)
	if err != nil || c.trouble != nil {
		return err
	}
	if err := c.readReleases(ctx, from, kinds); err != nil || c.trouble != nil {
		return err
	}
	c.parsed = after
	c.baselines, c.derived, c.all = gatewayapi.Routes{}, map[string][]*route{}, map[gatewayapi.Object]*route{}
	for _, r := range http {
		if c.add(&route{object: gatewayapi.Object{Kind: HTTPRoutes.Kind, Namespace: r.Namespace, Name: r.Name}, meta: &r.ObjectMeta, statuses: r.Status.Parents, http: r}) {
			c.baselines.HTTP = append(c.baselines.HTTP, r)
		}
	}
	for _, r := range grpc {
		if c.add(&route{object: gatewayapi.Object{Kind: GRPCRoutes.Kind, Namespace: r.Namespace, Name: r.Name}, meta: &r.ObjectMeta, statuses: r.Status.Parents, grpc: r}) {
			c.baselines.GRPC = append(c.baselines.GRPC, r)
		}
	}
	for _, p := range tls {
		if c.add(&route{object: gatewayapi.Object{Kind: BackendTLSPolicies.Kind, Namespace: p.Namespace, Name: p.Name}, meta: &p.ObjectMeta, tls: p}) {
			c.baselines.TLS = append(c.baselines.TLS, p)
		}
	}
	return c.weigh(ctx, from, read)
}

// add adds a route, and reports whether it is an owner's.
func (c *cluster) add(r *route) bool {
	c.all[r.object] = r
	if !gatewayapi.IsDerived(r.meta) {
		return true
	}
	key := r.meta.Annotations[crdv1.AnnotationRoutingKey]
	c.derived[key] = append(c.derived[key], r)
	return false
}

// readReleases reads the Rollouts, none where the cluster lacks the kind. It sets the trouble where they
// cannot be read: a derived route could break a release.
func (c *cluster) readReleases(ctx context.Context, from client.Reader, kinds meshes.Kinds) error {
	c.releases = nil
	rollouts := baseline.NewRolloutList()
	present, err := kinds.Present(ctx, baseline.RolloutKind().GroupKind())
	if err == nil && present {
		err = from.List(ctx, rollouts, client.UnsafeDisableDeepCopy)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !apimeta.IsNoMatchError(err):
		c.trouble = new(condition.False(ReasonUnreadable, fmt.Sprintf("Rollouts cannot be read, so no routes are derived: %v. Allow the controller manager to get, list and watch them.", err)))
		return nil
	}
	c.releases = releases.SelectorsOf(rollouts.Items)
	return nil
}

// weigh increments the revision if an input common to all keys has changed.
func (c *cluster) weigh(ctx context.Context, from client.Reader, read map[types.UID]int64) error {
	now := salient{policies: read, releases: fmt.Sprint(c.releases), routes: map[types.UID]int64{}, meta: map[types.UID][3]map[string]string{}, grants: map[types.UID]int64{}, ports: map[types.NamespacedName][]int32{}, plugins: map[types.NamespacedName]string{}}
	for _, r := range c.all {
		if gatewayapi.IsDerived(r.meta) {
			continue
		}
		now.routes[r.meta.UID] = r.meta.Generation
		now.meta[r.meta.UID] = [3]map[string]string{r.meta.Labels, r.meta.Annotations, {"deleted": fmt.Sprint(r.meta.DeletionTimestamp != nil)}}
	}
	for _, g := range c.grants {
		now.grants[g.UID] = g.Generation
	}
	for name, asNamed := range gatewayapi.ServicesNamed(c.baselines) {
		ports, plugins, err := c.portsOf(ctx, from, name)
		if err != nil {
			return err
		}
		if plugins != "" {
			now.plugins[name] = plugins
		}
		if !c.mayRead(name.Namespace) {
			ports = asNamed // Unreadable: assume that it has all of them.
		}
		now.ports[name] = ports
	}
	if !reflect.DeepEqual(now, c.salient) {
		c.salient, c.revision = now, c.revision+1
	}
	return nil
}

// mayRead reports whether a namespace may be read.
func (c *cluster) mayRead(namespace string) bool {
	return len(c.namespaces) == 0 || slices.Contains(c.namespaces, namespace)
}

// portsOf returns the ports of a Service, nil when there is no such Service, and the plugins that a
// gateway applies to its requests.
func (c *cluster) portsOf(ctx context.Context, from client.Reader, name types.NamespacedName) ([]int32, string, error) {
	if !c.mayRead(name.Namespace) {
		return nil, "", nil
	}
	var s corev1.Service
	if err := from.Get(ctx, name, &s); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, "", nil
		}
		return nil, "", fmt.Errorf("read Service %s: %w", name, err)
	}
	out := []int32{}
	for _, p := range s.Spec.Ports {
		out = append(out, p.Port)
	}
	return out, s.Annotations[policies.PluginsAnnotation], nil
}

// services returns Services with the given ports; Services with nil ports do not exist and are left
// out.
func services(ports map[types.NamespacedName][]int32) []*corev1.Service {
	var out []*corev1.Service
	for name, of := range ports {
		if of == nil {
			continue
		}
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		for _, p := range of {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: p})
		}
		out = append(out, s)
	}
	return out
}

// objects returns the objects of a kind in their type, none if the cluster lacks the kind. It sets
// trouble if HTTPRoutes are not installed, or objects cannot be read.
func objects[T any](ctx context.Context, c *cluster, after map[types.UID]parsed, from client.Reader, kinds meshes.Kinds, kind schema.GroupVersionKind) ([]*T, error) {
	present, err := kinds.Present(ctx, kind.GroupKind())
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err == nil && present {
		err = from.List(ctx, list, client.UnsafeDisableDeepCopy)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		consequence := fmt.Sprintf("%ss cannot be read, so no routes are derived: %v. Retrying.", kind.Kind, err)
		if kind == BackendTLSPolicies {
			consequence = fmt.Sprintf("BackendTLSPolicies cannot be read, so they do not apply to requests with the key: %v. Allow the controller manager to get, list and watch them.", err)
		}
		c.trouble = new(condition.False(ReasonUnreadable, consequence))
		return nil, nil
	case !present && kind == HTTPRoutes:
		c.trouble = new(condition.False(ReasonNotInstalled,
			"The cluster has no HTTPRoutes (gateway.networking.k8s.io/v1), and gatewayAPI.enabled is true. Install the Gateway API, or set the value to false."))
		return nil, nil
	}
	var out []*T
	for i := range list.Items {
		u := &list.Items[i]
		p, known := c.parsed[u.GetUID()]
		if !known || p.version != u.GetResourceVersion() {
			o := new(T)
			if err := parse(u, o); err != nil {
				c.unreadable = append(c.unreadable, unreadable{gatewayapi.Object{Kind: kind.Kind, Namespace: u.GetNamespace(), Name: u.GetName()}, u.Object, err})
				continue
			}
			p = parsed{u.GetResourceVersion(), o}
		}
		after[u.GetUID()] = p
		if o, is := p.object.(*T); is {
			out = append(out, o)
		}
	}
	return out, nil
}

// parse converts an object to its type. A spec field that this program does not know, of a later
// version of the API, is an error: a copy would lack it, and it may be a setting or a restriction of
// access.
func parse[T any](from *unstructured.Unstructured, to *T) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
		return err
	}
	if gatewayapi.IsDerived(&metav1.ObjectMeta{Labels: from.GetLabels(), OwnerReferences: from.GetOwnerReferences()}) {
		return nil // A copy of one that was read.
	}
	spec := map[string]any{"spec": from.Object["spec"]}
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(spec, new(T), true)
	if unknown, is := runtime.AsStrictDecodingError(err); is {
		return errors.Join(unknown.Errors()...)
	}
	return err
}

// versions returns the versions of the objects that are derived for a key.
func versions(derived []*route) []string {
	out := make([]string, 0, len(derived))
	for _, r := range derived {
		out = append(out, string(r.meta.UID)+" "+r.meta.ResourceVersion)
	}
	slices.Sort(out)
	return out
}
