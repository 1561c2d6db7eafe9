package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes/precedence"
)

// refs are the parents of a route.
type refs = []gatewayv1.ParentReference

// standing is a route with its parents.
type standing struct {
	object  Object
	ordered precedence.Route
	refs    refs
}

// contest adds findings about requests with the key that are handled by the wrong rule. If a rule
// handles a request without the key, its derived rule has to handle the request with the key, or the
// rule itself if none is derived from it. There is one finding per baseline and reason, since a Gateway
// can have hundreds of routes.
func (g *group) contest() {
	var all []contested
	for i := range g.derived {
		d := &g.derived[i]
		for _, p := range d.refs {
			for _, s := range g.scopes(d, p) {
				all = append(all, s.blocked(d)...)
				for rule := range d.origins {
					all = append(append(all, s.lost(d, rule)...), s.taken(d, rule)...)
				}
			}
		}
	}
	for i, c := range all {
		var others []Object
		first := true
		for j, o := range all {
			if o.reason != c.reason || o.derived.baseline != c.derived.baseline {
				continue
			}
			first = first && j >= i
			if o.other != c.other && !slices.Contains(others, o.other) {
				others = append(others, o.other)
			}
		}
		if !first {
			continue
		}
		message := c.what
		if len(others) > 0 {
			message += fmt.Sprintf(" (likewise %s)", names(others))
		}
		problem, advice := true, " Give one of the two routes other matches or host names."
		switch c.reason {
		case ReasonMoreSpecificRoute:
			problem, advice = false, ""
		case ReasonBadExpression:
			problem, advice = g.in.Order == precedence.Istiod, " Correct it."
		}
		for _, m := range c.derived.asking {
			g.note(m, c.derived.baseline, c.reason, problem, "%s.%s", message, advice)
		}
	}
}

// names returns the first of several routes and the number of the others, as text.
func names(all []Object) string {
	if len(all) == 1 {
		return all[0].String()
	}
	return fmt.Sprintf("%s and %d more", all[0], len(all)-1)
}

// contested is a conflict between a derived route and another one: a request with the key that the
// other route handles, or would handle without the key, or a bad expression of the other route.
type contested struct {
	derived *derivedRoute
	other   Object
	reason  string
	what    string
}

// scope is the routes of one listener or port, with their origins.
type scope struct {
	order  precedence.Order
	routes []precedence.Route
	// derived has the derived routes by index, nil for others. base is the number of the others,
	// which come first.
	derived []*derivedRoute
	base    int
	// subject is the index of the route that the scope is for.
	subject int
}

// scopes returns the scopes of a derived route at one of its parents, without duplicates.
func (g *group) scopes(d *derivedRoute, p gatewayv1.ParentReference) []scope {
	var out []scope
	var seen []string
	for _, at := range g.sections(d, p) {
		s := scope{order: g.in.Order}
		members := ""
		add := func(of *standing, derived *derivedRoute) {
			if !slices.ContainsFunc(of.refs, func(q gatewayv1.ParentReference) bool { return at.has(of.object.Namespace, q) }) {
				return
			}
			r := of.ordered
			if at.mesh {
				r.Hostnames = nil // meshes ignore them
			}
			if derived == d {
				s.subject = len(s.routes)
			}
			s.routes, s.derived = append(s.routes, r), append(s.derived, derived)
			members += of.object.String() + "\n"
		}
		for i := range g.baselines {
			add(&g.baselines[i], nil)
		}
		s.base = len(s.routes)
		for i := range g.derived {
			add(&g.derived[i].standing, &g.derived[i])
		}
		if !slices.Contains(seen, members) {
			seen, out = append(seen, members), append(out, s)
		}
	}
	return out
}

// section is a listener of a Gateway, identified by the names and ports in routes, or a port of a
// Service. listener is empty for listeners that no route names, and port 0 for ports.
type section struct {
	group, kind, namespace, name string
	listener                     string
	port                         int32
	// mesh is set for Services. routes is then the namespace of the routes, since only routes of
	// the same namespace apply together.
	mesh   bool
	routes string
}

// sectionOf returns the section that a parent reference of a route in a namespace names.
func sectionOf(namespace string, p gatewayv1.ParentReference) section {
	out := section{
		group: string(ptr.Deref(p.Group, gatewayv1.GroupName)), kind: string(ptr.Deref(p.Kind, "Gateway")),
		namespace: string(ptr.Deref(p.Namespace, gatewayv1.Namespace(namespace))), name: string(p.Name),
		listener: string(ptr.Deref(p.SectionName, "")), port: int32(ptr.Deref(p.Port, 0)),
	}
	if out.group == "" && out.kind == kindService {
		out.mesh, out.routes = true, namespace
	}
	return out
}

// has reports whether a parent reference includes the section.
func (s section) has(namespace string, p gatewayv1.ParentReference) bool {
	q := sectionOf(namespace, p)
	if !s.mesh {
		q.listener = cmp.Or(q.listener, s.listener)
		q.port = cmp.Or(q.port, s.port)
	}
	return q == s
}

// sections returns the sections of a parent of d that other routes distinguish by listener or port.
func (g *group) sections(d *derivedRoute, p gatewayv1.ParentReference) []section {
	whole := sectionOf(d.object.Namespace, p)
	if whole.mesh {
		return []section{whole}
	}
	listeners, ports := []string{whole.listener}, []int32{whole.port}
	for _, b := range g.baselines {
		for _, q := range b.refs {
			of := sectionOf(b.object.Namespace, q)
			if of.group != whole.group || of.kind != whole.kind || of.namespace != whole.namespace || of.name != whole.name {
				continue
			}
			if whole.listener == "" && !slices.Contains(listeners, of.listener) {
				listeners = append(listeners, of.listener)
			}
			if whole.port == 0 && !slices.Contains(ports, of.port) {
				ports = append(ports, of.port)
			}
		}
	}
	var out []section
	for _, whole.listener = range listeners {
		for _, whole.port = range ports {
			out = append(out, whole)
		}
	}
	return out
}

// origin returns the baseline's rule that a rule of the scope is, or is derived from.
func (s scope) origin(at precedence.At) (Object, int) {
	if d := s.derived[at.Route]; d != nil {
		return d.baseline, d.origins[at.Rule]
	}
	n := s.routes[at.Route].Name
	return Object(n), at.Rule
}

// lost returns requests that match a derived rule and that another one handles.
func (s scope) lost(d *derivedRoute, rule int) []contested {
	var out []contested
	for _, l := range s.order.Losses(s.routes, s.base, precedence.At{Route: s.subject, Rule: rule}) {
		winner, wins := s.origin(l.Winner)
		before, answered := Object{}, 0
		if l.Answered {
			before, answered = s.origin(l.Before)
		}
		asBefore := winner == before && wins == answered
		switch {
		case asBefore && winner != d.baseline && s.derived[l.Winner.Route] == nil:
			out = append(out, contested{d, winner, ReasonMoreSpecificRoute, fmt.Sprintf(
				"Requests such as %s go to rules[%d] of %s and not to %s, with the key as without it", l.Request, wins, winner, d.baseline)})
		case !asBefore && before == d.baseline && answered == d.origins[rule]:
			out = append(out, contested{d, winner, ReasonRequestsLost, fmt.Sprintf(
				"Requests such as %s are answered by %s, though by %s without the key", l.Request, s.name(l.Winner), d.baseline)})
		}
	}
	return out
}

// blocked returns the routes with a bad expression in the scope, because of which proxies can reject d.
// Istiod accepts such a route, and its proxies then reject all later route updates of that parent.
func (s scope) blocked(d *derivedRoute) []contested {
	var out []contested
	for i := range s.routes[:s.base] {
		if bad := s.routes[i].BadExpression(); bad != "" {
			other := Object(s.routes[i].Name)
			out = append(out, contested{d, other, ReasonBadExpression, fmt.Sprintf(
				"%s, which has a parent in common with %s, has the regular expression %.100q, with which proxies may refuse all routes", other, d.baseline, bad)})
		}
	}
	return out
}

// refusesBad reports whether a route has an expression that proxies reject, together with all routes of
// its parents, and adds a finding. A copy would have the same expression.
func (g *group) refusesBad(baseline Object, ordered precedence.Route, asking []*Managed) bool {
	bad := ordered.BadExpression()
	if bad == "" {
		return false
	}
	for _, m := range asking {
		g.note(m, baseline, ReasonBadExpression, true, "%s has the regular expression %.100q, with which proxies may refuse all routes. Correct it: until then nothing is derived from it.", baseline, bad)
	}
	return true
}

// name returns the route of a rule and, if it is derived, its original, as text.
func (s scope) name(at precedence.At) string {
	n := Object(s.routes[at.Route].Name)
	if d := s.derived[at.Route]; d != nil {
		return fmt.Sprintf("%s (derived from %s)", n, d.baseline)
	}
	return n.String()
}

// taken returns requests that a derived rule handles, but that without the key are handled by a rule
// from which none is derived.
func (s scope) taken(d *derivedRoute, rule int) []contested {
	added := make([]bool, len(s.routes))
	for i := range added {
		added[i] = i >= s.base
	}
	var out []contested
	for _, o := range s.order.Overtakes(s.routes, added, precedence.At{Route: s.subject, Rule: rule}) {
		loser, loses := s.origin(o.Loser)
		if !slices.ContainsFunc(s.derived[s.base:], func(e *derivedRoute) bool { return e.baseline == loser && slices.Contains(e.origins, loses) }) {
			out = append(out, contested{d, loser, ReasonRequestsTaken, fmt.Sprintf(
				"Requests such as %s are answered by %s, though by rules[%d] of %s without the key",
				o.Request, s.name(precedence.At{Route: s.subject, Rule: rule}), loses, loser)})
		}
	}
	return out
}
