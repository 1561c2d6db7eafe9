package gatewayapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes/gatewayapi"
)

// TestLargeRoutesAreSplit derives from routes up to the API's maximum size: the derived routes respect
// the API's limits and the order of the original.
func TestLargeRoutesAreSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		custom := []string{"x-one", "x-two", "x-three"}[:rapid.IntRange(0, 3).Draw(t, "custom")]
		r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "large"}}
		left := 128
		var want []string
		for i := range rapid.IntRange(1, 16).Draw(t, "rules") {
			name, port := gatewayv1.SectionName(fmt.Sprintf("rule-%d", i)), gatewayv1.PortNumber(80)
			rule := gatewayv1.HTTPRouteRule{Name: &name, BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{Name: "cart", Port: &port}}}}}
			matches := min(rapid.IntRange(1, 64).Draw(t, "matches"), left)
			if rapid.IntRange(0, 3).Draw(t, "replaced") == 0 && left > 0 {
				matches = 1
				replaced := "/"
				rule.Filters = []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterURLRewrite, URLRewrite: &gatewayv1.HTTPURLRewriteFilter{
					Path: &gatewayv1.HTTPPathModifier{Type: gatewayv1.PrefixMatchHTTPPathModifier, ReplacePrefixMatch: &replaced}}}}
			}
			if left -= matches; matches == 0 {
				break
			}
			for j := range matches {
				class, path := gatewayv1.PathMatchPathPrefix, fmt.Sprintf("/%d/%d", i, j)
				rule.Matches = append(rule.Matches, gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Type: &class, Value: &path}})
				for _, header := range slices.Concat([]string{"baggage", "tracestate"}, custom) {
					want = append(want, path+" "+header)
				}
			}
			r.Spec.Rules = append(r.Spec.Rules, rule)
		}
		result := gatewayapi.Derive(gatewayapi.Input{Managed: managedServices[:1], Routes: gatewayapi.Routes{HTTP: []*gatewayv1.HTTPRoute{r}}, CustomHeaders: custom})
		var got []string
		for _, d := range result.Routes.HTTP {
			got = append(got, withinCaps(t, d)...)
		}
		if !slices.Equal(want, got) {
			t.Fatalf("matches are not those of the original in its order: want %d, got %d", len(want), len(got))
		}
	})
}

// withinCaps fails if a route exceeds the API's limits, and returns the path and the last header of each
// of its matches.
func withinCaps(t *rapid.T, d *gatewayv1.HTTPRoute) []string {
	var out []string
	names := map[gatewayv1.SectionName]bool{}
	if len(d.Spec.Rules) > 16 || len(d.Name) > 253 {
		t.Fatalf("%s has %d rules", d.Name, len(d.Spec.Rules))
	}
	for _, rule := range d.Spec.Rules {
		if len(rule.Matches) > 64 || len(rule.Filters) > 0 && len(rule.Matches) != 1 {
			t.Fatalf("a rule has %d matches", len(rule.Matches))
		}
		if rule.Name != nil && names[*rule.Name] {
			t.Fatalf("two rules have the name %s", *rule.Name)
		}
		if rule.Name != nil {
			names[*rule.Name] = true
		}
		for _, m := range rule.Matches {
			out = append(out, *m.Path.Value+" "+string(m.Headers[len(m.Headers)-1].Name))
		}
	}
	if len(out) > 128 {
		t.Fatalf("%s has %d matches", d.Name, len(out))
	}
	return out
}

// TestTwoRoutesOfOneDerivedName has two routes for which the derived name is the same: both names have
// the maximum length, an equal prefix and the same hash.
func TestTwoRoutesOfOneDerivedName(t *testing.T) {
	in := gatewayapi.Input{Managed: managedServices[:1]}
	port := gatewayv1.PortNumber(80)
	for _, tail := range []string{"-53939", "-23670"} {
		r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: strings.Repeat("x", 242) + tail}}
		r.Spec.Rules = []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{Name: "cart", Port: &port}}}}}}
		in.Routes.HTTP = append(in.Routes.HTTP, r)
	}
	result := gatewayapi.Derive(in)
	if len(result.Routes.HTTP) != 1 || len(result.Routes.HTTP[0].Name) != 253 {
		t.Fatalf("%d routes are derived", len(result.Routes.HTTP))
	}
	for i, status := range []string{gatewayapi.StatusDerived, gatewayapi.ReasonNameTaken} {
		row := result.Matched["cart"][i]
		if row.Status != status || row.Baseline.Name != in.Routes.HTTP[1-i].Name {
			t.Errorf("%s is %s: %s", row.Baseline.Name[242:], row.Status, row.Message)
		}
	}
}
