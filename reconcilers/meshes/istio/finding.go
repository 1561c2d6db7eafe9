package istio

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/istio/expressions"
	"switchyard.dev/reconcilers/meshes/istio/names"
)

// Finding is a fact about a VirtualService, or the lack of one, that users should know.
type Finding struct {
	// Reason is one of the reasons below.
	Reason string
	// VirtualService is the VirtualService that it is about; zero if none.
	VirtualService types.NamespacedName
	// Service and Key identify the requests that it is about. Empty means all Services that the
	// VirtualService routes to, and all keys.
	Service types.NamespacedName
	Key     string
	// Lost reports whether requests with a key reach the baseline because of it.
	Lost bool
	// Message is the message of a condition.
	Message string
}

// Reasons of findings. The first group means that requests with a key reach the baseline.
const (
	// ReasonNoVirtualService: no VirtualService routes to the Service.
	ReasonNoVirtualService = "NoVirtualService"
	// ReasonUnreadable: a VirtualService does not conform to the schema.
	ReasonUnreadable = "VirtualServiceUnreadable"
	// ReasonIgnored: the VirtualService has an annotation that excludes it.
	ReasonIgnored = "VirtualServiceIgnored"
	// ReasonReleaseInfersRoute: a Rollout would fail with a second route.
	ReasonReleaseInfersRoute = "ReleaseInfersRoute"
	// ReasonReleaseReplacesRoutes: a Canary of Flagger owns it.
	ReasonReleaseReplacesRoutes = "ReleaseReplacesRoutes"
	// ReasonShadowed: an older VirtualService has its hosts in the mesh.
	ReasonShadowed = "VirtualServiceShadowed"
	// ReasonDelegateUnused: no VirtualService delegates to it.
	ReasonDelegateUnused = "DelegateUnused"
	// ReasonDelegateHidden: it is not exported to the namespace of one that delegates to it.
	ReasonDelegateHidden = "DelegateHidden"
	// ReasonDelegateClash: Istio cannot merge a route with the one that delegates to it.
	ReasonDelegateClash = "DelegateClash"
	// ReasonHeaderMatched: a route matches a header that carries keys.
	ReasonHeaderMatched = "HeaderMatched"
	// ReasonBadExpression: a route has a regular expression that Envoy rejects.
	ReasonBadExpression = "BadExpression"
	// ReasonKeyNotMatchable: no expression for the key can be written.
	ReasonKeyNotMatchable = "KeyNotMatchable"
	// ReasonPolicyNotApplied: a policy applies to a route by its name, but not to derived routes.
	ReasonPolicyNotApplied = "PolicyNotApplied"
	// ReasonHostUnknown: a destination names the Service in a form that Istio does not resolve.
	ReasonHostUnknown = "HostUnknown"
	// ReasonFull: the object would exceed its maximum size with the routes.
	ReasonFull = "VirtualServiceFull"
	// ReasonShareFull: the routes would exceed their author's share of the object.
	ReasonShareFull = "VirtualServiceShareFull"
	// ReasonHostNotRouted: no VirtualService in the mesh routes the host of the Service, and
	// AnnotationGatewaysOnly does not declare that no workload calls it.
	ReasonHostNotRouted = "HostNotRouted"
	// ReasonRoutedElsewhere: a VirtualService routes the host of the Service, but not to a Service with
	// a sandbox.
	ReasonRoutedElsewhere = "HostRoutedElsewhere"

	// ReasonLarge: the object is close to its maximum size.
	ReasonLarge = "VirtualServiceLarge"
	// ReasonExportedToSome: only some namespaces see the VirtualService.
	ReasonExportedToSome = "ExportedToSome"
	// ReasonNotHTTP: TCP and TLS routes are not changed.
	ReasonNotHTTP = "NotHTTP"
	// ReasonPrefixTaken: an original has a name with the prefix of derived routes.
	ReasonPrefixTaken = "PrefixTaken"
)

// add adds a finding about the VirtualService, unless there is an equal one.
func (r *Rendering) add(reason string, of *managed, lost bool, format string, args ...any) {
	f := Finding{Reason: reason, VirtualService: r.Name, Lost: lost, Message: fmt.Sprintf(format, args...)}
	if of != nil {
		f.Service = of.id()
	}
	if !slices.Contains(r.Findings, f) {
		r.Findings = append(r.Findings, f)
	}
}

// sortFindings sorts findings: those with Lost first, then by reason.
func sortFindings(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int {
		switch {
		case a.Lost != b.Lost && a.Lost:
			return -1
		case a.Lost != b.Lost:
			return 1
		}
		return cmp.Compare(a.Reason, b.Reason)
	})
}

// conclude sorts the findings, and sets general and keyed.
func (r *Rendering) conclude() {
	sortFindings(r.Findings)
	r.keyed = map[string][]Finding{}
	for _, f := range r.Findings {
		if f.Key == "" {
			r.general = append(r.general, f)
		} else {
			r.keyed[f.Key] = append(r.keyed[f.Key], f)
		}
	}
}

// unreadable adds a finding that the object cannot be read, for each managed Service with a host that
// occurs anywhere in it.
func (r *Rendering) unreadable(m *Mesh, object map[string]any, err error) {
	for _, s := range m.named(object, r.Name.Namespace) {
		r.add(ReasonUnreadable, s, true, "VirtualService %s cannot be read, so it gets no routes for Service %s: %v.", r.Name, s.id(), err)
	}
}

// Unrendered returns the Rendering of a VirtualService that cannot be rendered because of err: the
// object without changes, and findings that its Services get no routes.
func (m *Mesh) Unrendered(object *unstructured.Unstructured, err error) *Rendering {
	r := &Rendering{Name: types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}, Object: object}
	r.unreadable(m, object.Object, err)
	r.conclude()
	return r
}

// named returns the managed Services that an object names in any host field.
func (m *Mesh) named(object map[string]any, namespace string) []*managed {
	var all []target
	note := func(host string) { all = append(all, target{service: m.services[m.resolve(host, namespace)]}) }
	hostsIn(object, note)
	eachHost(object, note)
	return ledTo(all)
}

// aboutRoute adds findings about an original: a name with the prefix of derived routes, and hosts that
// Istio does not resolve.
func (r *Rendering) aboutRoute(m *Mesh, vs *virtualService, i int, targets []target) {
	if name := vs.spec.GetHttp()[i].GetName(); strings.HasPrefix(name, names.Prefix) {
		r.add(ReasonPrefixTaken, nil, false, "Route %s of VirtualService %s was not created by the operator, but its name has the prefix of the operator's routes; it is kept. Rename or remove it.", name, r.Name)
	}
	for _, t := range targets {
		host, _ := t.destination["host"].(string)
		if s := m.misread(host); t.service == nil && s != nil {
			r.add(ReasonHostUnknown, s, true, "%s has the destination %s, which Istio does not know. Write %s.", r.route(vs, i), host, s.host)
		}
	}
}

// route returns a description of an original for messages, by its name or index.
func (r *Rendering) route(vs *virtualService, i int) string {
	if name := vs.spec.GetHttp()[i].GetName(); name != "" {
		return fmt.Sprintf("Route %s of VirtualService %s", name, r.Name)
	}
	return fmt.Sprintf("Route spec.http[%d] of VirtualService %s", i, r.Name)
}

// sound reports whether routes can be derived from an original, and adds findings about it.
func (m *Mesh) sound(r *Rendering, vs *virtualService, i int, services []*managed) bool {
	route := vs.spec.GetHttp()[i]
	expression, why := expressions.Bad(route)
	root, field := clash(m.rootsOf(vs), route)
	policy := m.settings.filtering(route)
	for _, s := range services {
		if policy != "" && m.settings.RefuseFiltered {
			r.add(ReasonPolicyNotApplied, s, true, "%s is named by %s, which would not apply to a route for a sandbox, so there is none and requests with the key reach the baseline. Let the policy match the virtual host, or set policies.routes to report.", r.route(vs, i), policy)
		} else if policy != "" {
			r.add(ReasonPolicyNotApplied, s, false, "%s is named by %s, which does not apply to routes for sandboxes. Let the policy match the virtual host, or set policies.routes to refuse.", r.route(vs, i), policy)
		}
		if why != "" {
			r.add(ReasonBadExpression, s, true, "%s has the regular expression %.100q, with which proxies refuse all routes (%s). Correct it: until then it gets no routes.", r.route(vs, i), expression, why)
		}
		if root != nil {
			r.add(ReasonDelegateClash, s, true, "%s and VirtualService %s, which delegates to it, both match %s, one by a regular expression; Istio drops such a route. Match it in one of them.", r.route(vs, i), root.name, field)
		}
	}
	// A clash does not matter here: Istio drops the derived routes with the original, and other roots can
	// use both.
	return why == "" && (policy == "" || !m.settings.RefuseFiltered)
}

// filtering returns the policy that names an original; empty for none. Istio appends the name of a
// match to the name of its route.
func (s Settings) filtering(route *networking.HTTPRoute) string {
	if policy := s.Filtered[route.GetName()]; policy != "" && route.GetName() != "" {
		return policy
	}
	for _, match := range route.GetMatch() {
		if policy := s.Filtered[route.GetName()+"."+match.GetName()]; policy != "" && match.GetName() != "" {
			return policy
		}
	}
	return ""
}

func (r *Rendering) ownHeader(vs *virtualService, i int, services []*managed, header string) {
	for _, s := range services {
		r.add(ReasonHeaderMatched, s, true, "%s matches the header %s itself, so keys in it cannot be matched as well. Match another header.", r.route(vs, i), header)
	}
}

// leavesOutHeader adds findings that a route excludes requests by a header that carries keys. Derived
// routes exclude them too, as a later original can match them.
func (r *Rendering) leavesOutHeader(vs *virtualService, i int, services []*managed, header string) {
	for _, s := range services {
		r.add(ReasonHeaderMatched, s, true, "%s leaves out requests by the header %s, which carries keys, so it may not take those with one. Leave them out by another header.", r.route(vs, i), header)
	}
}

func (r *Rendering) rootHeader(services []*managed, header string, root *virtualService) {
	for _, s := range services {
		r.add(ReasonDelegateClash, s, true, "VirtualService %s delegates to %s and matches the header %s, so keys in it cannot be matched as well. Match another header.", root.name, r.Name, header)
	}
}

func (r *Rendering) large(bytes int) {
	r.add(ReasonLarge, nil, false, "VirtualService %s has %d KiB with its routes for sandboxes, and an object can have %d. Remove sandboxes, or split it by host.", r.Name, bytes>>10, MaxBytes>>10)
}

// full adds findings that the object would exceed its maximum size with the routes of the keys. bytes
// is its size with the routes of other keys.
func (r *Rendering) full(bytes int, services []*managed, keys []string) {
	for _, key := range keys {
		for _, s := range services {
			if _, has := s.sandboxes[key]; has {
				r.Findings = append(r.Findings, Finding{ReasonFull, r.Name, s.id(), key, true, fmt.Sprintf(
					"VirtualService %s has %d KiB and no room for routes of the key %s: an object can have %d. Remove sandboxes, or split it by host.", r.Name, bytes>>10, key, MaxBytes>>10)})
			}
		}
	}
}

// shareFull adds findings that the routes of a key would exceed the share of its author in the object.
func (r *Rendering) shareFull(author string, bytes int, services []*managed, key string) {
	for _, s := range services {
		if _, has := s.sandboxes[key]; has {
			r.Findings = append(r.Findings, Finding{ReasonShareFull, r.Name, s.id(), key, true, fmt.Sprintf(
				"VirtualService %s has %d KiB of routes for routing keys of %s, which is their share, and no room for those of the key %s. Delete sandboxes or route groups of %s, or split the VirtualService by host.", r.Name, bytes>>10, author, key, author)})
		}
	}
}

// aboutObject adds findings about a VirtualService as a whole.
func (r *Rendering) aboutObject(m *Mesh, vs *virtualService) {
	for _, s := range m.beyondHTTP(vs) {
		r.add(ReasonNotHTTP, s, false, "TCP and TLS routes of VirtualService %s to Service %s are left alone: they carry no headers.", r.Name, s.id())
	}
	if len(r.leads) == 0 {
		return
	}
	if vs.ignored != "" {
		r.add(ReasonIgnored, nil, true, "VirtualService %s has the annotation %s, so it gets no routes.", r.Name, vs.ignored)
		return
	}
	if reason, message := m.released(vs); reason != "" {
		r.add(reason, nil, true, "%s", message)
	}
	if !vs.public() {
		r.add(ReasonExportedToSome, nil, false, "VirtualService %s is exported to some namespaces only (exportTo: %s). Requests from others reach the baseline.", r.Name, strings.Join(vs.spec.GetExportTo(), ", "))
	}
	if vs.delegate() {
		r.aboutDelegate(m, vs)
		return
	}
	r.aboutHosts()
}

func (r *Rendering) aboutDelegate(m *Mesh, vs *virtualService) {
	roots := m.rootsOf(vs)
	if len(roots) == 0 {
		r.add(ReasonDelegateUnused, nil, true, "VirtualService %s has no hosts, and no other delegates to it, so Istio does not use it. Give it hosts or delegate to it.", r.Name)
	}
	for _, d := range roots {
		if !vs.seenBy(d.root.name.Namespace) {
			r.add(ReasonDelegateHidden, nil, true, "VirtualService %s delegates to %s, which is not exported to its namespace, so Istio leaves that route out. Add %s to exportTo.", d.root.name, r.Name, d.root.name.Namespace)
		}
	}
}

// aboutHosts adds findings about hosts for which the mesh uses another VirtualService.
func (r *Rendering) aboutHosts() {
	for _, shadow := range r.from.shadows {
		r.add(ReasonShadowed, nil, true, "Host %s of VirtualService %s belongs to %s in the mesh, where Istio uses one of a host. Merge the two.", shadow.host, r.Name, shadow.by.name)
	}
}

// beyondHTTP returns the managed Services that TCP and TLS routes use as destinations.
func (m *Mesh) beyondHTTP(vs *virtualService) []*managed {
	var all []target
	add := func(destinations []*networking.RouteDestination) {
		for _, d := range destinations {
			all = append(all, target{service: m.services[m.resolve(d.GetDestination().GetHost(), vs.name.Namespace)]})
		}
	}
	for _, route := range vs.spec.GetTcp() {
		add(route.GetRoute())
	}
	for _, route := range vs.spec.GetTls() {
		add(route.GetRoute())
	}
	return ledTo(all)
}
