package gatewayapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/eventbus/lists"
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
		return lists.Map(lists.Pointers(r.BackendRefs), func(b *gatewayv1.HTTPBackendRef) *gatewayv1.BackendRef { return &b.BackendRef })
	},
	retain:   retainHTTP,
	oneMatch: replacesPrefix,
	headers: func(m *gatewayv1.HTTPRouteMatch) []string {
		return lists.Map(m.Headers, func(h gatewayv1.HTTPHeaderMatch) string { return string(h.Name) })
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
		return lists.Map(lists.Pointers(r.BackendRefs), func(b *gatewayv1.GRPCBackendRef) *gatewayv1.BackendRef { return &b.BackendRef })
	},
	retain:   retainGRPC,
	oneMatch: func(*gatewayv1.GRPCRouteRule) bool { return false },
	headers: func(m *gatewayv1.GRPCRouteMatch) []string {
		return lists.Map(m.Headers, func(h gatewayv1.GRPCHeaderMatch) string { return string(h.Name) })
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
		redirect := ptr.Deref(f.RequestRedirect, gatewayv1.HTTPRequestRedirectFilter{})
		rewrite := ptr.Deref(f.URLRewrite, gatewayv1.HTTPURLRewriteFilter{})
		for _, path := range []*gatewayv1.HTTPPathModifier{redirect.Path, rewrite.Path} {
			if path != nil && path.Type == gatewayv1.PrefixMatchHTTPPathModifier {
				return true
			}
		}
	}
	return false
}
