package precedence_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"switchyard.dev/reconcilers/meshes/precedence"
)

// httpRoute returns an HTTPRoute with a name, a creation time in Unix seconds, and a spec in YAML.
func httpRoute(t testing.TB, namespace, name string, second int64, spec string) precedence.Route {
	t.Helper()
	r := &gatewayv1.HTTPRoute{}
	read(t, spec, &r.Spec)
	r.Namespace, r.Name = namespace, name
	r.CreationTimestamp.Time = time.Unix(second, 0)
	return precedence.OfHTTP(r)
}

func grpcRoute(t testing.TB, namespace, name string, second int64, spec string) precedence.Route {
	t.Helper()
	r := &gatewayv1.GRPCRoute{}
	read(t, spec, &r.Spec)
	r.Namespace, r.Name = namespace, name
	r.CreationTimestamp.Time = time.Unix(second, 0)
	return precedence.OfGRPC(r)
}

func notCreated(r precedence.Route) precedence.Route {
	r.Created = time.Time{}
	return r
}

func read(t testing.TB, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
}

func TestDestinationOfARequest(t *testing.T) {
	get := func(host, path string, headers map[string]string) precedence.Request {
		return precedence.Request{Host: host, Path: path, Method: "GET", Headers: headers}
	}
	x := map[string]string{"x": "1"}
	tests := []struct {
		name    string
		order   precedence.Order
		routes  []precedence.Route
		request precedence.Request
		want    string
	}{
		{"an exact path before a longer prefix", precedence.API, []precedence.Route{
			httpRoute(t, "a", "prefix", 1, `{rules: [{matches: [{path: {value: /a/}}]}]}`),
			httpRoute(t, "a", "exact", 2, `{rules: [{matches: [{path: {type: Exact, value: /a}}]}]}`),
		}, get("", "/a", nil), "exact"},
		{"the longer prefix, whatever else there is", precedence.API, []precedence.Route{
			httpRoute(t, "a", "short", 1, `{rules: [{matches: [{method: GET, headers: [{name: X, value: "1"}]}]}]}`),
			httpRoute(t, "a", "long", 2, `{rules: [{matches: [{path: {value: /a}}]}]}`),
		}, get("", "/a/b", x), "long"},
		{"a prefix ends with a segment", precedence.API, []precedence.Route{
			httpRoute(t, "a", "all", 1, `{rules: [{}]}`),
			httpRoute(t, "a", "a", 2, `{rules: [{matches: [{path: {value: /a}}]}]}`),
		}, get("", "/apex", x), "all"},
		{"a method before headers", precedence.API, []precedence.Route{
			httpRoute(t, "a", "headers", 1, `{rules: [{matches: [{headers: [{name: X, value: "1"}]}]}]}`),
			httpRoute(t, "a", "method", 2, `{rules: [{matches: [{method: GET}]}]}`),
		}, get("", "/", x), "method"},
		{"headers before age", precedence.API, []precedence.Route{
			httpRoute(t, "a", "old", 1, `{rules: [{}]}`),
			httpRoute(t, "a", "headers", 2, `{rules: [{matches: [{headers: [{name: X, type: RegularExpression, value: "[0-9]"}]}]}]}`),
		}, get("", "/", x), "headers"},
		{"an expression is for the whole value", precedence.API, []precedence.Route{
			httpRoute(t, "a", "part", 1, `{rules: [{matches: [{headers: [{name: X, type: RegularExpression, value: "[0-9]"}]}]}]}`),
		}, get("", "/", map[string]string{"x": "11"}), ""},
		{"the older route", precedence.API, []precedence.Route{
			httpRoute(t, "a", "young", 2, `{rules: [{}]}`), httpRoute(t, "b", "old", 1, `{rules: [{}]}`),
		}, get("", "/", nil), "old"},
		{"the first by namespace/name, of the same age", precedence.API, []precedence.Route{
			httpRoute(t, "a", "second", 1, `{rules: [{}]}`), httpRoute(t, "a-b", "first", 1, `{rules: [{}]}`),
		}, get("", "/", nil), "first"},
		{"the first by namespace", precedence.Istiod, []precedence.Route{
			httpRoute(t, "a-b", "second", 1, `{rules: [{}]}`), httpRoute(t, "a", "first", 1, `{rules: [{}]}`),
		}, get("", "/", nil), "first"},
		{"the longer of two names with one beginning", precedence.Istiod, []precedence.Route{
			httpRoute(t, "a", "first", 1, `{rules: [{}]}`), httpRoute(t, "a", "first-b", 1, `{rules: [{}]}`),
		}, get("", "/", nil), "first-b"},
		{"an expression after every prefix", precedence.Istiod, []precedence.Route{
			httpRoute(t, "a", "regex", 1, `{rules: [{matches: [{path: {type: RegularExpression, value: "/a.*"}}]}]}`),
			httpRoute(t, "a", "prefix", 2, `{rules: [{}]}`),
		}, get("", "/a", nil), "prefix"},
		{"an expression before every prefix", precedence.Contour, []precedence.Route{
			httpRoute(t, "a", "prefix", 1, `{rules: [{matches: [{path: {value: /a/b}}]}]}`),
			httpRoute(t, "a", "regex", 2, `{rules: [{matches: [{path: {type: RegularExpression, value: "/a.*"}}]}]}`),
		}, get("", "/a/b", nil), "regex"},
		{"a host without a wildcard before a longer one with", precedence.API, []precedence.Route{
			httpRoute(t, "a", "wild", 1, `{hostnames: ["*.shop.test"], rules: [{matches: [{path: {type: Exact, value: /}}]}]}`),
			httpRoute(t, "a", "exact", 2, `{hostnames: [A.shop.test, "*.test"], rules: [{}]}`),
		}, get("a.shop.test", "/", nil), "exact"},
		{"a less specific host where the other has no rule", precedence.API, []precedence.Route{
			httpRoute(t, "a", "wild", 1, `{hostnames: ["*.test"], rules: [{}]}`),
			httpRoute(t, "a", "exact", 2, `{hostnames: [shop.test], rules: [{matches: [{path: {value: /a}}]}]}`),
		}, get("shop.test", "/", nil), "wild"},
		{"unmatched where the more specific host has no rule", precedence.Istiod, []precedence.Route{
			httpRoute(t, "a", "wild", 1, `{hostnames: ["*.test"], rules: [{}]}`),
			httpRoute(t, "a", "exact", 2, `{hostnames: [shop.test], rules: [{matches: [{path: {value: /a}}]}]}`),
		}, get("shop.test", "/", nil), ""},
		{"the longer service before the method", precedence.API, []precedence.Route{
			grpcRoute(t, "a", "method", 1, `{rules: [{matches: [{method: {method: Pay}, headers: [{name: X, value: "1"}]}]}]}`),
			grpcRoute(t, "a", "service", 2, `{rules: [{matches: [{method: {service: shop.Cart}}]}]}`),
		}, get("", "/shop.Cart/Pay", x), "service"},
		{"the older of two kinds has the host alone", precedence.API, []precedence.Route{
			grpcRoute(t, "a", "grpc", 2, `{rules: [{matches: [{method: {service: shop.Cart, method: Pay}}]}]}`),
			httpRoute(t, "a", "http", 1, `{rules: [{}]}`),
		}, get("", "/shop.Cart/Pay", nil), "http"},
		{"both kinds in one list", precedence.Istiod, []precedence.Route{
			grpcRoute(t, "a", "grpc", 2, `{rules: [{matches: [{method: {service: shop.Cart, method: Pay}}]}]}`),
			httpRoute(t, "a", "http", 1, `{rules: [{}]}`),
		}, get("", "/shop.Cart/Pay", nil), "grpc"},
		{"in one list a call of any service comes last", precedence.Istiod, []precedence.Route{
			grpcRoute(t, "a", "grpc", 1, `{rules: [{matches: [{headers: [{name: X, value: "1"}]}]}]}`),
			httpRoute(t, "a", "http", 2, `{rules: [{}]}`),
		}, get("", "/shop.Cart/Pay", x), "http"},
		{"a call of any service at the root", precedence.Contour, []precedence.Route{
			grpcRoute(t, "a", "grpc", 2, `{rules: [{matches: [{headers: [{name: X, value: "1"}]}]}]}`),
			httpRoute(t, "a", "http", 1, `{rules: [{}]}`),
		}, get("", "/shop.Cart/Pay", x), "grpc"},
		{"a route that is not there yet is the youngest", precedence.API, []precedence.Route{
			httpRoute(t, "z", "older", 8, `{rules: [{matches: [{path: {type: Exact, value: /x}}]}]}`),
			notCreated(httpRoute(t, "b", "new", 0, `{rules: [{}]}`)),
			httpRoute(t, "z", "old", 9, `{rules: [{}]}`),
			notCreated(httpRoute(t, "a", "newer", 0, `{rules: [{}]}`)),
		}, get("", "/", nil), "old"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if at, found := tt.order.Winner(tt.routes, tt.request); found {
				got = tt.routes[at.Route].Name.Name
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s: %s", tt.request, diff)
			}
		})
	}
}

func TestAnExpressionThatDoesNotCompileIsFound(t *testing.T) {
	for want, r := range map[string]precedence.Route{
		"":       httpRoute(t, "a", "good", 1, `{rules: [{}, {matches: [{path: {value: "/("}, headers: [{name: x, value: "("}, {name: y, type: RegularExpression, value: "[a]"}, {name: z, type: RegularExpression, value: "*"}]}]}]}`),
		"/a(":    httpRoute(t, "a", "path", 1, `{rules: [{}, {matches: [{}, {path: {type: RegularExpression, value: "/a("}}]}]}`),
		"a)(b":   httpRoute(t, "a", "header", 1, `{rules: [{matches: [{headers: [{name: x, type: RegularExpression, value: "a)(b"}]}]}]}`),
		"+":      httpRoute(t, "a", "parameter", 1, `{rules: [{matches: [{queryParams: [{name: q, type: RegularExpression, value: "+"}]}]}]}`),
		"/a[/.+": grpcRoute(t, "a", "call", 1, `{rules: [{matches: [{method: {type: RegularExpression, service: "a["}}]}]}`),
		"?":      grpcRoute(t, "a", "metadata", 1, `{rules: [{matches: [{headers: [{name: x, type: RegularExpression, value: "?"}]}]}]}`),
	} {
		if got := r.BadExpression(); got != want {
			t.Errorf("of %s it is %q, not %q", r.Name, got, want)
		}
	}
}
