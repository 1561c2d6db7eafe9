package gatewayapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes/keymatch"
	"switchyard.dev/reconcilers/meshes/precedence"
)

// kind gives generic access to HTTPRoutes and GRPCRoutes, which have the same structure in other types.
type kind[Route, Rule, Match any] struct {
	name string
	meta func(*Route) *metav1.ObjectMeta
	refs func(*Route) []gatewayv1.ParentReference
	// derive returns a copy of a route with the given metadata and rules, without status.
	derive func(of *Route, meta metav1.ObjectMeta, rules []Rule) *Route
	rules  func(*Route) []Rule
	// copyRule returns a copy of a rule with the given matches.
	copyRule func(*Rule, []Match) Rule
	ruleName func(*Rule) **gatewayv1.SectionName
	matches  func(*Rule) []Match
	backends func(*Rule) []*gatewayv1.BackendRef
	// retain removes the backends of a rule for which keep is false, and filters that send copies
	// of its requests to other backends.
	retain func(r *Rule, keep func(*gatewayv1.BackendRef) bool)
	// oneMatch reports whether the API limits the rule to one match.
	oneMatch func(*Rule) bool
	headers  func(*Match) []string
	// withKey returns a copy of a match that requires the key, too.
	withKey func(Match, keymatch.Match) Match
	ordered func(*Route) precedence.Route
}

var httpRoutes = kind[gatewayv1.HTTPRoute, gatewayv1.HTTPRouteRule, gatewayv1.HTTPRouteMatch]{
	name: precedence.HTTPRoute,
	meta: func(r *gatewayv1.HTTPRoute) *metav1.ObjectMeta { return &r.ObjectMeta },
	refs: func(r *gatewayv1.HTTPRoute) []gatewayv1.ParentReference { return r.Spec.ParentRefs },
	derive: func(of *gatewayv1.HTTPRoute, meta metav1.ObjectMeta, rules []gatewayv1.HTTPRouteRule) *gatewayv1.HTTPRoute {
		out := &gatewayv1.HTTPRoute{TypeMeta: typeMeta(precedence.HTTPRoute), ObjectMeta: meta, Spec: *of.Spec.DeepCopy()}
		out.Spec.Rules = rules
		return out
	},
	rules: func(r *gatewayv1.HTTPRoute) []gatewayv1.HTTPRouteRule { return r.Spec.Rules },
	copyRule: func(r *gatewayv1.HTTPRouteRule, matches []gatewayv1.HTTPRouteMatch) gatewayv1.HTTPRouteRule {
		out := r.DeepCopy()
		out.Matches = matches
		return *out
	},
	ruleName: func(r *gatewayv1.HTTPRouteRule) **gatewayv1.SectionName { return &r.Name },
	matches:  func(r *gatewayv1.HTTPRouteRule) []gatewayv1.HTTPRouteMatch { return r.Matches },
	backends: func(r *gatewayv1.HTTPRouteRule) []*gatewayv1.BackendRef {
		var out []*gatewayv1.BackendRef
		for i := range r.BackendRefs {
			out = append(out, &r.BackendRefs[i].BackendRef)
		}
		return out
	},
	retain:   retainHTTP,
	oneMatch: replacesPrefix,
	headers: func(m *gatewayv1.HTTPRouteMatch) []string {
		var out []string
		for _, h := range m.Headers {
			out = append(out, string(h.Name))
		}
		return out
	},
	withKey: func(m gatewayv1.HTTPRouteMatch, key keymatch.Match) gatewayv1.HTTPRouteMatch {
		out := m.DeepCopy()
		if out.Path == nil { // the API's default
			out.Path = &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchPathPrefix), Value: new("/")}
		}
		class := gatewayv1.HeaderMatchExact
		if key.Regex {
			class = gatewayv1.HeaderMatchRegularExpression
		}
		out.Headers = append(out.Headers, gatewayv1.HTTPHeaderMatch{Type: &class, Name: gatewayv1.HTTPHeaderName(key.Header), Value: key.Value})
		return *out
	},
	ordered: precedence.OfHTTP,
}

var grpcRoutes = kind[gatewayv1.GRPCRoute, gatewayv1.GRPCRouteRule, gatewayv1.GRPCRouteMatch]{
	name: precedence.GRPCRoute,
	meta: func(r *gatewayv1.GRPCRoute) *metav1.ObjectMeta { return &r.ObjectMeta },
	refs: func(r *gatewayv1.GRPCRoute) []gatewayv1.ParentReference { return r.Spec.ParentRefs },
	derive: func(of *gatewayv1.GRPCRoute, meta metav1.ObjectMeta, rules []gatewayv1.GRPCRouteRule) *gatewayv1.GRPCRoute {
		out := &gatewayv1.GRPCRoute{TypeMeta: typeMeta(precedence.GRPCRoute), ObjectMeta: meta, Spec: *of.Spec.DeepCopy()}
		out.Spec.Rules = rules
		return out
	},
	rules: func(r *gatewayv1.GRPCRoute) []gatewayv1.GRPCRouteRule { return r.Spec.Rules },
	copyRule: func(r *gatewayv1.GRPCRouteRule, matches []gatewayv1.GRPCRouteMatch) gatewayv1.GRPCRouteRule {
		out := r.DeepCopy()
		out.Matches = matches
		return *out
	},
	ruleName: func(r *gatewayv1.GRPCRouteRule) **gatewayv1.SectionName { return &r.Name },
	matches:  func(r *gatewayv1.GRPCRouteRule) []gatewayv1.GRPCRouteMatch { return r.Matches },
	backends: func(r *gatewayv1.GRPCRouteRule) []*gatewayv1.BackendRef {
		var out []*gatewayv1.BackendRef
		for i := range r.BackendRefs {
			out = append(out, &r.BackendRefs[i].BackendRef)
		}
		return out
	},
	retain:   retainGRPC,
	oneMatch: func(*gatewayv1.GRPCRouteRule) bool { return false },
	headers: func(m *gatewayv1.GRPCRouteMatch) []string {
		var out []string
		for _, h := range m.Headers {
			out = append(out, string(h.Name))
		}
		return out
	},
	withKey: func(m gatewayv1.GRPCRouteMatch, key keymatch.Match) gatewayv1.GRPCRouteMatch {
		out := m.DeepCopy()
		class := gatewayv1.GRPCHeaderMatchExact
		if key.Regex {
			class = gatewayv1.GRPCHeaderMatchRegularExpression
		}
		out.Headers = append(out.Headers, gatewayv1.GRPCHeaderMatch{Type: &class, Name: gatewayv1.GRPCHeaderName(key.Header), Value: key.Value})
		return *out
	},
	ordered: precedence.OfGRPC,
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: kind}
}

// replacesPrefix reports whether a filter of a rule, or of one of its backends, replaces the
// matched prefix. The API limits such a rule to one match.
func replacesPrefix(r *gatewayv1.HTTPRouteRule) bool {
	filters := r.Filters
	for _, b := range r.BackendRefs {
		filters = append(filters[:len(filters):len(filters)], b.Filters...)
	}
	for _, f := range filters {
		for _, path := range []*gatewayv1.HTTPPathModifier{redirectPath(f.RequestRedirect), rewritePath(f.URLRewrite)} {
			if path != nil && path.Type == gatewayv1.PrefixMatchHTTPPathModifier {
				return true
			}
		}
	}
	return false
}

func redirectPath(f *gatewayv1.HTTPRequestRedirectFilter) *gatewayv1.HTTPPathModifier {
	if f == nil {
		return nil
	}
	return f.Path
}

func rewritePath(f *gatewayv1.HTTPURLRewriteFilter) *gatewayv1.HTTPPathModifier {
	if f == nil {
		return nil
	}
	return f.Path
}
