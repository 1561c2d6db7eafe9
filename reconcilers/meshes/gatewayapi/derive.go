package gatewayapi

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/keymatch"
	"switchyard.dev/reconcilers/meshes/precedence"
	"switchyard.dev/reconcilers/meshes/releases"
)

// Derive returns the desired derived routes, with findings and statuses.
func Derive(in Input) Result {
	// Two routes can claim the same name. The winner must not depend on the order of a list.
	in.Routes.HTTP, in.Routes.GRPC = slices.SortedFunc(slices.Values(in.Routes.HTTP), byName), slices.SortedFunc(slices.Values(in.Routes.GRPC), byName)
	in.Routes.TLS = slices.SortedFunc(slices.Values(in.Routes.TLS), byPrecedence)
	w := newWorld(&in)
	var out Result
	report := report{in: &in, matched: map[string][]MatchedObject{}}
	for _, g := range w.groups() {
		keys, err := keymatch.Of(g.key, in.CustomHeaders, keymatch.GatewayAPI)
		if err != nil {
			for _, m := range g.managed {
				g.note(m, Object{}, ReasonKeyNotMatched, true, "%s", err)
			}
			report.add(g)
			continue
		}
		g.keys = keys
		for _, r := range in.Routes.HTTP {
			out.Routes.HTTP = append(out.Routes.HTTP, deriveRoute(g, &httpRoutes, r)...)
		}
		for _, r := range in.Routes.GRPC {
			out.Routes.GRPC = append(out.Routes.GRPC, deriveRoute(g, &grpcRoutes, r)...)
		}
		out.Routes.TLS = append(out.Routes.TLS, g.deriveTLS()...)
		out.Refused = append(out.Refused, g.refused...)
		g.contest()
		report.add(g)
	}
	slices.SortFunc(out.Routes.HTTP, byName)
	slices.SortFunc(out.Routes.GRPC, byName)
	slices.SortFunc(out.Routes.TLS, byName)
	out.Findings, out.Matched = report.finish()
	return out
}

func byName[R metav1.Object](a, b R) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// world is the input with indexes, shared by all groups.
type world struct {
	in *Input
	// ports are the ports of each Service, nil if Services are not known.
	ports map[types.NamespacedName][]int32
	// owner maps the name of each derived route to its original, and of each other object to the
	// object itself.
	owner map[Object]Object
	// existing are the derived routes that exist, with their creation times.
	existing map[Object]metav1.Time
	// baselines are the routes that are not derived.
	baselines []standing
}

func newWorld(in *Input) *world {
	w := &world{in: in, owner: map[Object]Object{}, existing: map[Object]metav1.Time{}}
	for _, s := range in.Services {
		if w.ports == nil {
			w.ports = map[types.NamespacedName][]int32{}
		}
		ports := []int32{}
		for _, p := range s.Spec.Ports {
			ports = append(ports, p.Port)
		}
		w.ports[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = ports
	}
	enter(w, &httpRoutes, in.Routes.HTTP)
	enter(w, &grpcRoutes, in.Routes.GRPC)
	for _, p := range in.Routes.TLS {
		if object := policyObject(p.Namespace, p.Name); !IsDerived(&p.ObjectMeta) {
			w.owner[object] = object
		}
	}
	return w
}

// enter adds routes to existing if they are derived, and to owner and baselines otherwise.
func enter[Route, Rule, Match any](w *world, k *kind[Route, Rule, Match], routes []*Route) {
	for _, r := range routes {
		name := Object{Kind: k.name, Namespace: k.meta(r).Namespace, Name: k.meta(r).Name}
		if IsDerived(k.meta(r)) {
			w.existing[name] = k.meta(r).CreationTimestamp
			continue
		}
		w.owner[name] = name
		w.baselines = append(w.baselines, standing{object: name, ordered: k.ordered(r), refs: k.refs(r)})
	}
}

// group is the Managed of one routing key, with the routes and findings for them.
type group struct {
	*world
	key      string
	managed  []*Managed
	keys     []keymatch.Match
	derived  []derivedRoute
	findings []Finding
	refused  []Object
}

// groups returns one group for each routing key, ordered by their first Managed.
func (w *world) groups() []*group {
	var out []*group
	byKey := map[string]*group{}
	for i := range w.in.Managed {
		m := &w.in.Managed[i]
		g := byKey[m.RoutingKey]
		if g == nil {
			g = &group{world: w, key: m.RoutingKey}
			byKey[m.RoutingKey] = g
			out = append(out, g)
		}
		g.managed = append(g.managed, m)
	}
	return out
}

// derivedRoute is the part of a derived route that decides precedence, with its origin.
type derivedRoute struct {
	standing
	baseline Object
	// origins are, for each of its rules, the index of the baseline's rule.
	origins []int
	// asking are the Managed that it is derived for.
	asking []*Managed
}

// deriveRoute returns the routes derived from a route, and adds findings.
func deriveRoute[Route, Rule, Match any](g *group, k *kind[Route, Rule, Match], r *Route) []*Route {
	meta := k.meta(r)
	if IsDerived(meta) || meta.DeletionTimestamp != nil {
		return nil
	}
	baseline := Object{Kind: k.name, Namespace: meta.Namespace, Name: meta.Name}
	rules := k.rules(r)
	leads, asking := make([]bool, len(rules)), []*Managed(nil)
	for i := range rules {
		for _, m := range g.leading(baseline, meta, i, k.backends(&rules[i])) {
			leads[i] = true
			if !slices.Contains(asking, m) {
				asking = append(asking, m)
			}
		}
	}
	if asking == nil || g.refusesBad(baseline, k.ordered(r), asking) {
		return nil
	}
	if g.ofRelease(k.name, meta, baseline, asking) {
		return nil
	}
	guarded, refused := checkPolicies(g, k, r, baseline, asking)
	if refused {
		return nil
	}
	made := keyedRules(g, k, r, baseline, leads, asking)
	if guarded {
		if made = guardRules(g, k, r, made, baseline, leads, asking); made == nil {
			return nil
		}
	}
	var out []*Route
	for i, part := range pack(k, made) {
		object := Object{Kind: k.name, Namespace: meta.Namespace, Name: nameOf(meta.Name, g.key, i)}
		if !g.claim(object, baseline, asking) {
			break // parts need consecutive indexes to keep their order
		}
		derived := g.metadata(meta, k.name, asking)
		derived.Name = object.Name
		d := k.derive(r, derived, part.rules)
		out = append(out, d)
		g.derived = append(g.derived, g.standingOf(k.ordered(d), object, baseline, k.refs(r), part.origins, asking))
	}
	return out
}

// ofRelease reports whether a release controller would select a derived route, and adds a finding if
// so.
func (g *group) ofRelease(kind string, meta *metav1.ObjectMeta, baseline Object, asking []*Managed) bool {
	derived := g.metadata(meta, kind, asking)
	i := slices.IndexFunc(g.in.Releases, func(s releases.Selector) bool { return s.Selects(kind, meta.Namespace, derived.Labels) })
	if i < 0 {
		return false
	}
	for _, m := range asking {
		g.note(m, baseline, ReasonReleaseSelectsRoutes, true, "%s", g.in.Releases[i].Selected(baseline.String()))
	}
	return true
}

func (g *group) standingOf(ordered precedence.Route, object, baseline Object, refs refs, origins []int, asking []*Managed) derivedRoute {
	ordered.Created = g.existing[object].Time
	return derivedRoute{standing{object, ordered, refs}, baseline, origins, asking}
}

// claim reserves the name of a derived route and returns true, unless another object has the name.
func (g *group) claim(object, baseline Object, asking []*Managed) bool {
	owner, taken := g.owner[object]
	other, elsewhere := g.in.Taken[object]
	if !elsewhere && (!taken || owner == baseline) {
		g.owner[object] = baseline
		return true
	}
	if elsewhere {
		g.refused = append(g.refused, object)
	}
	for _, m := range asking {
		switch {
		case elsewhere:
			g.note(m, baseline, ReasonNameTaken, true, "Routes of routing keys %q and %q, this one derived from %s, would both have the name %s. Use another key for one of the two.", other, g.key, baseline, object.Name)
		case owner == object:
			g.note(m, baseline, ReasonNameTaken, true, "%s has the name of an object that would be derived from %s, and is not the operator's. Rename it.", object, baseline)
		default:
			g.note(m, baseline, ReasonNameTaken, true, "Objects derived from %s and from %s would both have the name %s. Rename one of the two.", owner, baseline, object.Name)
		}
	}
	return false
}
