package gatewayapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/reconcilers/meshes/precedence"
)

// managedServices are cart and pay. The Service other is not managed.
var managedServices = []gatewayapi.Managed{
	{Name: "cart", RoutingKey: key, Sandbox: "mine", Namespace: "shop", TargetService: "cart", Mappings: []crdv1.IstioPortMapping{{FromPort: 80, ToService: "mine-cart"}}},
	{Name: "pay", RoutingKey: key, Sandbox: "mine", Namespace: "shop", TargetService: "pay", Mappings: []crdv1.IstioPortMapping{{FromPort: 80, ToService: "mine-pay"}}},
}

func drawRule(t *rapid.T) gatewayv1.HTTPRouteRule {
	to := rapid.SampledFrom([]gatewayv1.ObjectName{"cart", "pay", "other"}).Draw(t, "to")
	port := gatewayv1.PortNumber(80)
	rule := gatewayv1.HTTPRouteRule{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{Name: to, Port: &port}}}}}
	for range rapid.IntRange(0, 2).Draw(t, "matches") {
		class := rapid.SampledFrom([]gatewayv1.PathMatchType{gatewayv1.PathMatchExact, gatewayv1.PathMatchPathPrefix}).Draw(t, "class")
		path := rapid.SampledFrom([]string{"/", "/a", "/a/b"}).Draw(t, "path")
		m := gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Type: &class, Value: &path}}
		for _, name := range []gatewayv1.HTTPHeaderName{"x1", "x2", "tracestate"} {
			if rapid.IntRange(0, 4).Draw(t, string(name)) == 0 {
				m.Headers = append(m.Headers, gatewayv1.HTTPHeaderMatch{Name: name, Value: "v"})
			}
		}
		if rapid.IntRange(0, 2).Draw(t, "q") == 0 {
			m.QueryParams = []gatewayv1.HTTPQueryParamMatch{{Name: "q", Value: "1"}}
		}
		if rapid.IntRange(0, 4).Draw(t, "method") == 0 {
			method := gatewayv1.HTTPMethodGet
			m.Method = &method
		}
		rule.Matches = append(rule.Matches, m)
	}
	return rule
}

// keyedRequests calls f with requests that carry the key in baggage, in tracestate, or in both.
func keyedRequests(f func(precedence.Request)) {
	for _, path := range []string{"/", "/a", "/a/b", "/none"} {
		for _, method := range []string{"GET", "PUT"} {
			for i := range 32 {
				q := precedence.Request{Path: path, Method: method, Headers: map[string]string{}, Query: map[string]string{}}
				for n, name := range []string{"x1", "x2"} {
					if i>>n&1 == 1 {
						q.Headers[name] = "v"
					}
				}
				if i>>2&1 == 1 {
					q.Query["q"] = "1"
				}
				if i>>3 != 1 {
					q.Headers["baggage"] = "sd-routing-key=" + key
				}
				switch i >> 3 {
				case 1, 2:
					q.Headers["tracestate"] = "sd-routing-key=" + key
				case 3:
					q.Headers["tracestate"] = "v"
				}
				f(q)
			}
		}
	}
}

// answer returns the first backend of the rule that handles a request, and the name of the route.
func answer(routes []*gatewayv1.HTTPRoute, order precedence.Order, q precedence.Request) (string, string) {
	var ordered []precedence.Route
	for _, r := range routes {
		ordered = append(ordered, precedence.OfHTTP(r))
	}
	at, found := order.Winner(ordered, q)
	if !found {
		return "", ""
	}
	return string(routes[at.Route].Spec.Rules[at.Rule].BackendRefs[0].Name), routes[at.Route].Name
}

// TestRequestsWithTheKeyGoWhereTheyShould checks that requests with the key are routed to the fork of the
// Service that handles them without the key, unless a finding reports a problem.
func TestRequestsWithTheKeyGoWhereTheyShould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := gatewayapi.Input{Managed: managedServices, Order: rapid.SampledFrom([]precedence.Order{precedence.API, precedence.Istiod}).Draw(t, "order")}
		for i := range rapid.IntRange(1, 3).Draw(t, "routes") {
			r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("r%d", i)}}
			r.CreationTimestamp = metav1.Unix(rapid.Int64Range(1, 2).Draw(t, "created"), 0)
			r.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "edge"}}
			r.Spec.Rules = rapid.SliceOfN(rapid.Custom(drawRule), 1, 3).Draw(t, "rules")
			in.Routes.HTTP = append(in.Routes.HTTP, r)
		}
		baselines := slices.Clone(in.Routes.HTTP)
		result := gatewayapi.Derive(in)
		if rapid.Bool().Draw(t, "some are there") { // their creation times differ from the others'
			for _, d := range result.Routes.HTTP {
				d.CreationTimestamp = metav1.Unix(rapid.Int64Range(3, 4).Draw(t, "made"), 0)
				in.Routes.HTTP = append(in.Routes.HTTP, d)
			}
			again := gatewayapi.Derive(in)
			for i, d := range again.Routes.HTTP {
				d.CreationTimestamp = result.Routes.HTTP[i].CreationTimestamp
			}
			result = again
		}
		all := slices.Concat(baselines, result.Routes.HTTP)
		keyedRequests(func(q precedence.Request) {
			want, from := answer(baselines, in.Order, q)
			if want == "cart" || want == "pay" {
				want = "mine-" + want
			}
			if got, by := answer(all, in.Order, q); got != want && !told(result.Findings, from, by) {
				t.Fatalf("%s goes to %s by %s, want %s by %s or what is derived from it; findings: %+v", q, got, by, want, from, result.Findings)
			}
		})
	})
}

// told reports whether there is a problem finding about one of the routes, or about its original.
func told(findings []gatewayapi.Finding, routes ...string) bool {
	return slices.ContainsFunc(findings, func(f gatewayapi.Finding) bool {
		return f.Problem && slices.ContainsFunc(routes, func(name string) bool {
			return f.Baseline.Name != "" && (name == f.Baseline.Name || strings.HasPrefix(name, f.Baseline.Name+"-"))
		})
	})
}
