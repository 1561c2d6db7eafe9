package gatewayapi

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/policies"
)

// mostPolicies is the maximum number of policies that the findings of one route name.
const mostPolicies = 3

// checkPolicies adds findings for the policies that apply to a route and not to routes derived
// from it. guarded reports whether any of them protects something, and refused whether nothing is
// derived because of that.
func checkPolicies[Route, Rule, Match any](g *group, k *kind[Route, Rule, Match], r *Route, baseline Object, asking []*Managed) (guarded, refused bool) {
	meta := k.meta(r)
	derived := g.metadata(meta, k.name, asking)
	of := policies.Route{
		Kind: k.name, Namespace: meta.Namespace, Name: meta.Name, Labels: meta.Labels, Annotations: meta.Annotations,
		DerivedLabels: derived.Labels, DerivedAnnotations: derived.Annotations, Plugins: g.in.Plugins,
		Forks: map[types.NamespacedName][]string{},
	}
	rules := k.rules(r)
	for i := range rules {
		of.Rules = append(of.Rules, string(ptr.Deref(*k.ruleName(&rules[i]), "")))
	}
	of.Rules = slices.DeleteFunc(of.Rules, func(name string) bool { return name == "" })
	for _, m := range asking {
		of.Services = append(of.Services, m.service())
		of.Forks[m.service()] = m.forks()
	}
	missed, tuned := policies.OnRoute(g.in.Policies, of), []policies.Miss(nil)
	missed = slices.DeleteFunc(missed, func(miss policies.Miss) bool {
		if miss.Tunes {
			tuned = append(tuned, miss)
		}
		return miss.Tunes
	})
	for _, miss := range tuned[:min(len(tuned), mostPolicies)] {
		for _, m := range asking {
			if m.service() == miss.Service {
				g.note(m, baseline, ReasonPolicyNotApplied, false, "%s and does not apply to the Service of the sandbox. %s.", miss.Applies, miss.Remedy)
			}
		}
	}
	guarded, refused = len(missed) > 0, len(missed) > 0 && g.in.RefusePolicies
	for _, miss := range missed[:min(len(missed), mostPolicies)] {
		for _, m := range asking {
			if refused {
				g.note(m, baseline, ReasonPolicyNotApplied, true, "%s and would not apply to a derived route, so none is created and requests with the key reach the baseline. %s, or set policies.routes to report.", miss.Applies, miss.Remedy)
			} else {
				g.note(m, baseline, ReasonPolicyNotApplied, false, "%s and does not apply to the derived route. %s, or set policies.routes to refuse.", miss.Applies, miss.Remedy)
			}
		}
	}
	return guarded, refused
}

// guardRules returns the derived rules of a route with backends of the sandbox only, so that no request
// bypasses a policy of another backend. It returns nil if none remain, or if they would take requests
// of a rule with other backends.
func guardRules[Route, Rule, Match any](g *group, k *kind[Route, Rule, Match], r *Route, all []made[Rule], baseline Object, leads []bool, asking []*Managed) []made[Rule] {
	// Findings about other backends do not apply to these rules.
	g.findings = slices.DeleteFunc(g.findings, func(f Finding) bool { return f.Baseline == baseline && f.Reason == ReasonPartOfRequests })
	own := g.sandboxServices(asking)
	var out []made[Rule]
	var taken []int // rules with other backends, of which derived ones take requests
	kept := slices.Repeat([]bool{true}, len(leads))
	for _, m := range all {
		k.retain(&m.rule, func(ref *gatewayv1.BackendRef) bool {
			service, is := serviceOf(ref, baseline.Namespace)
			return is && own[service] && ptr.Deref(ref.Weight, 1) > 0
		})
		switch {
		case !leads[m.origin]:
			taken = append(taken, m.origin)
		case len(k.backends(&m.rule)) == 0: // The original rule handles its requests.
			kept[m.origin] = false
		default:
			out = append(out, m)
		}
	}
	if without := slices.Clone(kept); len(taken) == 0 && keepOvertaken(g, k, r, out, kept) {
		for i := range kept {
			if kept[i] && !without[i] {
				taken = append(taken, i)
			}
		}
	}
	for _, a := range asking {
		switch {
		case len(taken) > 0:
			g.note(a, baseline, ReasonPolicyNotApplied, true, "A derived rule would take requests of rules[%d] of %s, which route to another backend past that policy, so no route is derived and requests with the key reach the baseline. Attach the policy to the Gateway.", taken[0], baseline)
		case out == nil:
			g.note(a, baseline, ReasonPolicyNotApplied, true, "%s routes no requests to Service %s by weight, so none with the key reach the sandbox. Give the backend a weight.", baseline, a.service())
		}
	}
	if len(taken) > 0 {
		return nil
	}
	return out
}

// sandboxServices returns the Services of the sandbox that replace those of a baseline.
func (g *group) sandboxServices(asking []*Managed) map[types.NamespacedName]bool {
	own := map[types.NamespacedName]bool{}
	for _, m := range asking {
		for _, name := range m.forks() {
			own[types.NamespacedName{Namespace: m.Namespace, Name: name}] = g.governed(m) == ""
		}
	}
	return own
}

// retainHTTP removes from a rule the mirrors, and the backends for which keep is false.
func retainHTTP(r *gatewayv1.HTTPRouteRule, keep func(*gatewayv1.BackendRef) bool) {
	mirrors := func(f gatewayv1.HTTPRouteFilter) bool { return f.Type == gatewayv1.HTTPRouteFilterRequestMirror }
	r.Filters = slices.DeleteFunc(r.Filters, mirrors)
	r.BackendRefs = slices.DeleteFunc(r.BackendRefs, func(b gatewayv1.HTTPBackendRef) bool { return !keep(&b.BackendRef) })
	for i := range r.BackendRefs {
		r.BackendRefs[i].Filters = slices.DeleteFunc(r.BackendRefs[i].Filters, mirrors)
	}
}

// retainGRPC is retainHTTP for a rule of a GRPCRoute.
func retainGRPC(r *gatewayv1.GRPCRouteRule, keep func(*gatewayv1.BackendRef) bool) {
	mirrors := func(f gatewayv1.GRPCRouteFilter) bool { return f.Type == gatewayv1.GRPCRouteFilterRequestMirror }
	r.Filters = slices.DeleteFunc(r.Filters, mirrors)
	r.BackendRefs = slices.DeleteFunc(r.BackendRefs, func(b gatewayv1.GRPCBackendRef) bool { return !keep(&b.BackendRef) })
	for i := range r.BackendRefs {
		r.BackendRefs[i].Filters = slices.DeleteFunc(r.BackendRefs[i].Filters, mirrors)
	}
}
