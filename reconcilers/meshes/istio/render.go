package istio

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/istio/marks"
	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/reconcilers/meshes/keymatch"
	"switchyard.dev/reconcilers/meshes/releases"
)

// Rendering is a VirtualService as it should be.
type Rendering struct {
	Name types.NamespacedName
	// Object is a copy with our routes; Changed reports whether it differs from what was given.
	Object  *unstructured.Unstructured
	Changed bool
	// Findings are what the owner, or who made a sandbox, should know, the worst first.
	Findings []Finding

	// original, mesh and from are what it was made of.
	original *Original
	mesh     Settings
	from     inputs
	ignored  bool
	// read is the VirtualService; nil for one that cannot be read.
	read *virtualService
	// leads are the managed Services that it routes HTTP to, and whether those requests of the
	// mesh that are sent straight to the Service.
	leads map[types.NamespacedName]bool
	// hosts are the other managed Services to which it routes requests of the mesh that are sent
	// straight to a managed Service.
	hosts map[types.NamespacedName][]types.NamespacedName
	// routes are how many routes there are of a key, by Service: those with it as a destination, and
	// those for its host.
	routes map[claim]int
	// keyed are the findings of one key each, by key; general are the others.
	keyed   map[string][]Finding
	general []Finding
}

// settled reports whether nothing has changed that the rendering follows from.
func (r *Rendering) settled(m *Mesh, in inputs) bool {
	return r.from.equal(in) && reflect.DeepEqual(r.mesh, m.settings)
}

// Concerns returns the Services of which the rendering says anything.
func (r *Rendering) Concerns() map[types.NamespacedName]bool {
	all := map[types.NamespacedName]bool{}
	for s := range r.leads {
		all[s] = true
	}
	for _, s := range r.from.hosted {
		all[s.id()] = true
	}
	for _, f := range r.Findings {
		all[f.Service] = true
	}
	return all
}

type claim struct {
	service types.NamespacedName
	key     string
}

// derived is a route of ours.
type derived struct {
	key      string
	services []*managed
	entry    map[string]any
}

// source is a route of the owner's that ours come from.
type source struct {
	i int
	// name distinguishes it from the other routes of the owner.
	name     string
	entry    map[string]any
	services []*managed
	// hosted are other Services: requests of the mesh to their hosts take the route.
	hosted []*managed
	// listeners are the ports for which a route of ours is needed each, and bases the matches that
	// they start from.
	listeners []int32
	bases     []base
	// derived are ours.
	derived []derived
}

// Render returns what a VirtualService should be, whether the mesh has seen it or not. All of
// its owner's is kept as it is: a route of ours is put directly before the one it comes from.
// It is a pure function of the owner's part, so rendering again changes nothing.
func (m *Mesh) Render(object *unstructured.Unstructured) Rendering {
	r, _ := m.RenderAgain(Read(object, m.settings.ClusterDomain), nil)
	r.Changed = !reflect.DeepEqual(object.Object, r.Object.Object)
	return *r
}

// render puts our routes into an object that has none.
func (m *Mesh) render(r *Rendering, wanted map[string]any) {
	vs := r.read
	spec, _ := wanted["spec"].(map[string]any)
	list, _ := spec["http"].([]any)
	reason, _ := m.released(vs)
	originals := originals(vs)
	var sources []source
	for i, one := range list {
		entry, _ := one.(map[string]any)
		targets := m.targets(entry, vs.name.Namespace)
		r.aboutRoute(m, vs, i, targets)
		services := ledTo(targets)
		for _, s := range services {
			r.leads[s.id()] = r.leads[s.id()] || m.straight(vs, i, s)
		}
		hosted := m.hostedAt(r, i, services)
		if vs.ignored == "" && reason == "" && len(services) > 0 && m.sound(r, vs, i, services) {
			sources = append(sources, source{i: i, name: originals[i], entry: entry, services: services, hosted: hosted, listeners: listeners(targets), bases: bases(entry, r.from.roots)})
		}
	}
	r.aboutObject(m, vs)
	m.fill(r, sources)
	var all []any
	rest := 0
	for _, s := range sources {
		all = append(all, list[rest:s.i]...)
		rest = s.i
		for _, d := range s.derived {
			all = append(all, d.entry)
			for _, service := range slices.Concat(d.services, s.hosted) {
				r.routes[claim{service.id(), d.key}]++
			}
		}
	}
	all = append(all, list[rest:]...)
	if len(all) > len(list) {
		spec["http"] = all
		metadata, _ := wanted["metadata"].(map[string]any)
		marks.Add(metadata, m.settings.Labels, m.settings.Annotations)
	}
}

// hostedAt returns the Services that are no destination of an owner's route, while requests of the
// mesh to their hosts take it. It notes the destinations, services, for each.
func (m *Mesh) hostedAt(r *Rendering, i int, services []*managed) (hosted []*managed) {
	for _, s := range r.from.hosted {
		if len(services) == 0 || slices.Contains(services, s) || !m.straight(r.read, i, s) {
			continue
		}
		hosted = append(hosted, s)
		for _, to := range services {
			if !slices.Contains(r.hosts[s.id()], to.id()) {
				r.hosts[s.id()] = append(r.hosts[s.id()], to.id())
			}
		}
	}
	return hosted
}

// originals returns what distinguishes the HTTP routes of a VirtualService.
func originals(vs *virtualService) []string {
	var all []string
	for _, route := range vs.spec.GetHttp() {
		all = append(all, route.GetName())
	}
	return names.Originals(all)
}

// released returns why a VirtualService gets no routes because of a release controller, as the reason
// and the message of a finding. Both are empty where it may get routes.
func (m *Mesh) released(vs *virtualService) (reason, message string) {
	if vs.canary != "" {
		return ReasonReleaseReplacesRoutes, releases.Replaced(types.NamespacedName{Namespace: vs.name.Namespace, Name: vs.canary}, vs.name)
	}
	if rollout, has := m.settings.Inferring[vs.name]; has && len(vs.spec.GetHttp()) == 1 {
		return ReasonReleaseInfersRoute, releases.Advice(rollout, vs.name, vs.spec.GetHttp()[0].GetName())
	}
	return "", ""
}

// derive returns the routes of ours for a key before an owner's, by port.
func (m *Mesh) derive(r *Rendering, s source, key string) []derived {
	owns := func(match map[string]any, header string) bool {
		if matchesHeader(match, "withoutHeaders", header) {
			r.leavesOutHeader(r.read, s.i, s.services, header)
		}
		if !matchesHeader(match, "headers", header) {
			return false
		}
		r.ownHeader(r.read, s.i, s.services, header)
		return true
	}
	roots := r.from.roots
	groups := m.groups(r, r.read, s.services, key, roots)
	var all []derived
	for _, listener := range s.listeners {
		for g, group := range groups {
			from := s.bases
			if g > 0 || listener != 0 && onPort(roots) {
				// Ours may be joined with fewer of the root's matches than the owner's is.
				from = alone(from)
			}
			for _, b := range from {
				all = append(all, m.deriveOne(r.read, s, key, listener, b.join(group, listener, owns))...)
			}
		}
	}
	return all
}

// deriveOne returns the route with the matches, if there are any and the key leads elsewhere
// than the entry does.
func (m *Mesh) deriveOne(vs *virtualService, s source, key string, listener int32, matches []any) []derived {
	if len(matches) == 0 {
		return nil
	}
	d, ok := m.copyFor(vs, s, key, listener)
	if !ok {
		return nil
	}
	d.entry["match"] = matches
	return []derived{d}
}

// groups returns the matches of a key, those together that one route of ours has. Istio drops
// a delegate's route if one of its matches can be joined with none of a root's; so a header
// that a root matches itself stands alone, for where other matches lead to the delegate.
func (m *Mesh) groups(r *Rendering, vs *virtualService, services []*managed, key string, roots []delegating) [][]keymatch.Match {
	groups := make([][]keymatch.Match, 1)
	for _, match := range matchesOf(services, key) {
		root, always := rootMatches(roots, match.Header)
		if root == nil {
			groups[0] = append(groups[0], match)
			continue
		}
		r.rootHeader(services, match.Header, root)
		if !always {
			groups = append(groups, []keymatch.Match{match})
		}
	}
	return groups
}

// matchesOf returns the matches of a key. They follow from it and the settings alone, so any
// Service that has it has the same.
func matchesOf(services []*managed, key string) []keymatch.Match {
	for _, s := range services {
		if sandbox, has := s.sandboxes[key]; has {
			return sandbox.matches
		}
	}
	return nil
}

// copyFor returns the copy of an owner's route that forwards requests with the key, which come at listener,
// to their sandbox; it reports whether there is one for any destination of the route.
func (m *Mesh) copyFor(vs *virtualService, s source, key string, listener int32) (derived, bool) {
	d := derived{key: key, entry: runtime.DeepCopyJSON(s.entry)}
	needed := listener == 0 // a route for one port is needed only where the port decides
	for _, t := range m.targets(d.entry, vs.name.Namespace) {
		port := t.lead(key, listener)
		if port == 0 {
			continue
		}
		needed = needed || t.port == 0
		if len(d.services) == 0 {
			d.entry["name"] = names.Of(key, t.service.Name, port, s.name)
		}
		if !slices.Contains(d.services, t.service) {
			d.services = append(d.services, t.service)
		}
	}
	return d, needed && len(d.services) > 0
}

// rootsOf returns the routes that lead to a delegate.
func (m *Mesh) rootsOf(vs *virtualService) []delegating {
	if !vs.delegate() {
		return nil
	}
	return m.delegating[vs.name]
}

// straight reports whether sidecars take an owner's route, or the root's that delegates to it,
// for requests to the host of a Service.
func (m *Mesh) straight(vs *virtualService, i int, s *managed) bool {
	through := []delegating{{vs, vs.spec.GetHttp()[i]}}
	if vs.delegate() {
		through = m.rootsOf(vs)
	}
	return forMesh(vs.spec.GetHttp()[i]) && slices.ContainsFunc(through, func(d delegating) bool {
		return d.root.inMesh() && d.root.covers(s.host) && forMesh(d.route)
	})
}
