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

// Rendering is the desired state of a VirtualService.
type Rendering struct {
	Name types.NamespacedName
	// Object is a copy with derived routes. Changed is true if it differs from the given object.
	Object  *unstructured.Unstructured
	Changed bool
	// Findings are for the owner and for authors of sandboxes; lost requests come first.
	Findings []Finding

	// original, mesh and from are its inputs.
	original *Original
	mesh     Settings
	from     inputs
	ignored  bool
	// read is the decoded VirtualService; nil if it does not conform to the schema.
	read *virtualService
	// leads are the managed Services that it routes HTTP to. The value is true if that includes
	// requests of the mesh to the host of the Service.
	leads map[types.NamespacedName]bool
	// hosts are, for the host of a managed Service, the other managed Services to which it routes
	// requests of the mesh.
	hosts map[types.NamespacedName][]types.NamespacedName
	// routes are the numbers of derived routes by key and Service: those that replace the Service as
	// a destination, and those for its host.
	routes map[claim]int
	// keyed are the findings about a single key, by key; general are the others.
	keyed   map[string][]Finding
	general []Finding
}

// settled reports whether the inputs of the rendering are unchanged.
func (r *Rendering) settled(m *Mesh, in inputs) bool {
	return r.from.equal(in) && reflect.DeepEqual(r.mesh, m.settings)
}

// Concerns returns the Services that the rendering is relevant for. The zero name represents all Services.
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

// derived is a derived route.
type derived struct {
	key      string
	services []*managed
	entry    map[string]any
}

// source is an original with its derived routes.
type source struct {
	i int
	// name distinguishes it from the other originals.
	name     string
	entry    map[string]any
	services []*managed
	// hosted are other Services with hosts for which requests of the mesh use the route.
	hosted []*managed
	// listeners are the ports that need a derived route each, and bases the matches to which the
	// routes add.
	listeners []int32
	bases     []base
	// derived are the derived routes.
	derived []derived
}

// Render returns the desired state of a VirtualService, which need not be part of the Mesh. The owner's
// part is not changed; derived routes are inserted directly before their originals. Rendering is
// idempotent.
func (m *Mesh) Render(object *unstructured.Unstructured) Rendering {
	r, _ := m.RenderAgain(Read(object, m.settings.ClusterDomain), nil)
	r.Changed = !reflect.DeepEqual(object.Object, r.Object.Object)
	return *r
}

// render inserts derived routes into an object without any, and adds findings.
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

// hostedAt returns the Services that are not destinations of an original but have hosts for which
// requests of the mesh use it. It adds the destinations, services, to r.hosts for each.
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

// originals returns a distinct name for each HTTP route of a VirtualService (names.Originals).
func originals(vs *virtualService) []string {
	var all []string
	for _, route := range vs.spec.GetHttp() {
		all = append(all, route.GetName())
	}
	return names.Originals(all)
}

// released returns the reason and the message of a finding if a release controller prevents derived
// routes in a VirtualService. Otherwise both are empty.
func (m *Mesh) released(vs *virtualService) (reason, message string) {
	if vs.canary != "" {
		return ReasonReleaseReplacesRoutes, releases.Replaced(types.NamespacedName{Namespace: vs.name.Namespace, Name: vs.canary}, vs.name)
	}
	if rollout, has := m.settings.Inferring[vs.name]; has && len(vs.spec.GetHttp()) == 1 {
		return ReasonReleaseInfersRoute, releases.Advice(rollout, vs.name, vs.spec.GetHttp()[0].GetName())
	}
	return "", ""
}

// derive returns the derived routes of an original for a key, ordered by port.
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
				// These can merge with fewer of the root's matches than the original does.
				from = alone(from)
			}
			for _, b := range from {
				all = append(all, m.deriveOne(r.read, s, key, listener, b.join(group, listener, owns))...)
			}
		}
	}
	return all
}

// deriveOne returns the derived route with the matches. It returns none without matches, or if the key
// has no sandbox for a destination of the original.
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

// groups returns the matches of a key, grouped by derived route. Istio drops a delegate's route if one of
// its matches cannot be merged with any of a root's. So a header that a root matches gets a group of its
// own, which applies where other matches delegate; if all of them match the header, it is left out.
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

// matchesOf returns the matches of a key. They only depend on the key and the settings, so they are the
// same for all Services.
func matchesOf(services []*managed, key string) []keymatch.Match {
	for _, s := range services {
		if sandbox, has := s.sandboxes[key]; has {
			return sandbox.matches
		}
	}
	return nil
}

// copyFor returns a copy of an original that routes requests with the key, received at port listener, to
// their sandbox. It returns false if no destination of the original needs such a route.
func (m *Mesh) copyFor(vs *virtualService, s source, key string, listener int32) (derived, bool) {
	d := derived{key: key, entry: runtime.DeepCopyJSON(s.entry)}
	needed := listener == 0 // a route for one port is needed only where the port decides
	for _, t := range m.targets(d.entry, vs.name.Namespace) {
		port := t.redirect(key, listener)
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

// rootsOf returns the routes that delegate to a VirtualService; nil if it is not a delegate.
func (m *Mesh) rootsOf(vs *virtualService) []delegating {
	if !vs.delegate() {
		return nil
	}
	return m.delegating[vs.name]
}

// straight reports whether sidecars use an original, possibly by delegation, for requests to the host
// of a Service.
func (m *Mesh) straight(vs *virtualService, i int, s *managed) bool {
	through := []delegating{{vs, vs.spec.GetHttp()[i]}}
	if vs.delegate() {
		through = m.rootsOf(vs)
	}
	return forMesh(vs.spec.GetHttp()[i]) && slices.ContainsFunc(through, func(d delegating) bool {
		return d.root.inMesh() && d.root.covers(s.host) && forMesh(d.route)
	})
}
