package gatewayapi

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/reconcilers/meshes/gatewayapi/advice"
	"switchyard.dev/reconcilers/meshes/precedence"
)

// concerns reports whether a derived route decides requests for a managed Service: it routes to the
// Service of the sandbox, or the managed Service is one of its parents.
func (d *derivedRoute) concerns(m *Managed) bool {
	return slices.Contains(d.asking, m) || hasParent(d.object.Namespace, d.refs, m.service())
}

// hasParent reports whether a Service is a parent of a route.
func hasParent(namespace string, parents refs, service types.NamespacedName) bool {
	return slices.ContainsFunc(parents, func(p gatewayv1.ParentReference) bool {
		at := sectionOf(namespace, p)
		return at.mesh && at.namespace == service.Namespace && at.name == service.Name
	})
}

// asParent notes, of a managed Service to which no route refers, what routes with it as a parent do
// with its requests. Release controllers have such Services: a route of the root Service splits
// requests between the stable and the canary Service.
func (g *group) asParent(m *Managed) {
	if slices.ContainsFunc(g.findings, func(f Finding) bool { return f.Managed == m.Name }) {
		return
	}
	var elsewhere []Object
	for _, of := range lists.Pointers(g.baselines) {
		if !hasParent(of.object.Namespace, of.refs, m.service()) {
			continue
		}
		if d := slices.IndexFunc(g.derived, func(d derivedRoute) bool { return d.baseline == of.object }); d >= 0 {
			if !slices.Contains(g.derived[d].asking, m) {
				g.note(m, of.object, ReasonRoutedAsParent, false, "%s routes requests for Service %s to Services that the sandbox replaces: %s.", of.object, m.service(), servicesOf(g.derived[d].asking))
			}
			return
		}
		if why := g.firstAbout(of.object); why != nil {
			g.note(m, of.object, why.Reason, why.Problem, "%s", why.Message)
			return
		}
		elsewhere = append(elsewhere, of.object)
	}
	if len(elsewhere) > 0 {
		g.note(m, elsewhere[0], ReasonRoutedElsewhere, true, "%s decides requests for Service %s and routes none of them to a Service of the sandbox, so requests with the key are routed like those without. Add a rule with the backend %s to %s, or fork the workloads that it routes to.",
			elsewhere[0], m.service(), m.TargetService, elsewhere[0])
	}
}

// firstAbout returns the first finding about a route, problems before others; nil for none.
func (g *group) firstAbout(route Object) *Finding {
	for _, problem := range []bool{true, false} {
		i := slices.IndexFunc(g.findings, func(f Finding) bool { return f.Baseline == route && f.Problem == problem })
		if i >= 0 {
			return &g.findings[i]
		}
	}
	return nil
}

// servicesOf lists Services.
func servicesOf(all []*Managed) string {
	return list(lists.Map(all, func(m *Managed) string { return m.service().String() }))
}

// exampleFor returns a route for one port of a managed Service, under a name that no route has.
func (g *group) exampleFor(m *Managed) string {
	name := advice.FreeName(m.TargetService, func(name string) bool {
		_, has := g.owner[Object{Kind: precedence.HTTPRoute, Namespace: m.Namespace, Name: name}]
		return has
	})
	var ports []int32
	for _, mapping := range m.Mappings {
		ports = append(ports, mapping.FromPort)
	}
	return advice.Route(name, m.service(), ports)
}

// grantFor returns a ReferenceGrant, under a name that none has, that lets routes such as the baseline
// refer to a Service.
func (g *group) grantFor(baseline Object, service types.NamespacedName) string {
	name := advice.FreeName(service.Name, func(name string) bool {
		return slices.ContainsFunc(g.in.Grants, func(have *gatewayv1.ReferenceGrant) bool {
			return have.Namespace == service.Namespace && have.Name == name
		})
	})
	return advice.Grant(name, baseline.Kind, baseline.Namespace, service)
}
