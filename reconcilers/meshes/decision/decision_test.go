package decision_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/decision"
	"switchyard.dev/reconcilers/meshes/precedence"
)

func read[T any](t *testing.T, text string) T {
	t.Helper()
	var o T
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// of returns the YAML of a MeshRoute of a Service with a status.
func of(service, status string) string {
	return `{metadata: {name: k-` + service + `, ownerReferences: [{apiVersion: signadot.com/v1, kind: RoutingConfig, name: k, uid: u, controller: true}]},
  spec: {routingKey: k, managed: {namespace: shop, targetService: ` + service + `, mappings: [{fromPort: 80, toService: fork, workloadPort: 8080}]}}, status: ` + status + `}`
}

// conditions returns conditions with a reason for Ready; Ready is true.
func conditions(reason string) string {
	status := "False"
	if reason == "Ready" {
		status = "True"
	}
	return `conditions: [{type: Ready, status: "` + status + `", reason: ` + reason + `, message: Do that.}]`
}

// route returns an HTTPRoute in namespace shop with Service shop/cart as its parent, and a rule.
func route(name, rule string) string {
	return `{metadata: {name: ` + name + `, namespace: shop}, spec: {parentRefs: [{group: "", kind: Service, name: cart}], rules: [` + rule + `]}}`
}

const (
	keyed = `{headers: [{name: baggage, value: sd-routing-key=k}], path: {type: PathPrefix, value: /}}`
)

// TestOf decides requests to Service shop/cart. Its baseline also has Service shop/other.
func TestOf(t *testing.T) {
	routed := `{` + conditions("Ready") + `, matchedVirtualServices: [{namespace: shop, name: wild, status: Applied}, {namespace: shop, name: cart, status: Applied}, {namespace: shop, name: edge, status: Applied}]}`
	derived := `{` + conditions("Ready") + `, matchedObjects: [{baseline: {kind: HTTPRoute, namespace: shop, name: a}, derived: {kind: HTTPRoute, namespace: shop, name: a-k}, parentKinds: [Service], status: Derived},
  {baseline: {kind: HTTPRoute, namespace: shop, name: pay}, derived: {kind: HTTPRoute, namespace: shop, name: pay-k}, parentKinds: [Service], status: Derived},
  {baseline: {kind: HTTPRoute, namespace: shop, name: b}, derived: {kind: HTTPRoute, namespace: shop, name: b-k}, parentKinds: [Gateway], status: Derived}]}`
	virtualServices := []string{
		`{metadata: {name: wild, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"}, spec: {hosts: ["*.svc.cluster.local"]}}`,
		`{metadata: {name: cart, namespace: shop, creationTimestamp: "2026-01-03T00:00:00Z"}, spec: {hosts: [cart]}}`,
		`{metadata: {name: edge, namespace: shop, creationTimestamp: "2026-01-02T00:00:00Z"}, spec: {hosts: [cart], gateways: [edge]}}`,
	}
	routes := []string{route("a", `{matches: [{path: {type: PathPrefix, value: /}}]}`), route("a-k", `{matches: [`+keyed+`]}`), route("pay-k", `{matches: [{headers: [{name: baggage, value: sd-routing-key=k}], path: {type: Exact, value: /pay}}]}`)}
	for name, tt := range map[string]struct {
		istio, gatewayAPI []string
		more              []string
		path              string
		by, lost          string
	}{
		"no MeshRoute":                       {},
		"no report yet":                      {istio: []string{of("cart", "{}")}, lost: "IstioRoute k-cart has no report yet"},
		"the exact host of a VirtualService": {istio: []string{of("cart", routed)}, by: "IstioRoute k-cart (VirtualService shop/cart)"},
		"another Service is lost":            {istio: []string{of("cart", routed), of("other", `{`+conditions("HeaderMatched")+`}`)}, by: "IstioRoute k-cart (VirtualService shop/cart)"},
		"a VirtualService before a route": {istio: []string{of("cart", `{`+conditions("HiddenBySidecar")+`, matchedVirtualServices: [{namespace: shop, name: cart, status: Applied}]}`)},
			gatewayAPI: []string{of("cart", derived)}, lost: "IstioRoute k-cart is not ready (HiddenBySidecar)"},
		"both are ready": {istio: []string{of("cart", routed)}, gatewayAPI: []string{of("cart", derived)}, by: "IstioRoute k-cart (VirtualService shop/cart)"},
		"a VirtualService of gateways alone": {istio: []string{of("cart", `{`+conditions("HostNotRouted")+`, matchedVirtualServices: [{namespace: shop, name: edge, status: Applied}]}`)},
			gatewayAPI: []string{of("cart", derived)}, by: "GatewayAPIRoute k-cart (HTTPRoute shop/a-k)"},
		"the route of the path":       {gatewayAPI: []string{of("cart", derived)}, path: "/pay", by: "GatewayAPIRoute k-cart (HTTPRoute shop/pay-k)"},
		"an owner's route takes it":   {gatewayAPI: []string{of("cart", derived)}, more: []string{route("o", `{matches: [{path: {type: Exact, value: /own}}]}`)}, path: "/own", lost: "HTTPRoute shop/o has precedence for GET cart.shop.svc.cluster.local/own"},
		"routes of Gateways alone":    {gatewayAPI: []string{of("cart", `{`+conditions("Ready")+`, matchedObjects: [{baseline: {kind: HTTPRoute, namespace: shop, name: b}, derived: {kind: HTTPRoute, namespace: shop, name: b-k}, parentKinds: [Gateway], status: Derived}]}`)}, lost: "GatewayAPIRoute k-cart has routes of Gateways alone"},
		"the Gateway API's is lost":   {gatewayAPI: []string{of("cart", `{`+conditions("RequestsLost")+`}`)}, lost: "GatewayAPIRoute k-cart is not ready (RequestsLost)"},
		"neither mesh has any routes": {istio: []string{of("cart", `{`+conditions("NoVirtualService")+`}`)}, lost: "IstioRoute k-cart is not ready (NoVirtualService)"},
	} {
		t.Run(name, func(t *testing.T) {
			var all []crdv1.MeshRoute
			for _, text := range tt.istio {
				all = append(all, new(read[crdv1.IstioRoute](t, text)))
			}
			for _, text := range tt.gatewayAPI {
				all = append(all, new(read[crdv1.GatewayAPIRoute](t, text)))
			}
			objects := decision.Objects{Order: precedence.Istiod}
			for _, text := range virtualServices {
				objects.VirtualServices = append(objects.VirtualServices, &unstructured.Unstructured{Object: read[map[string]any](t, text)})
			}
			for _, text := range append(tt.more, routes...) {
				objects.HTTPRoutes = append(objects.HTTPRoutes, read[gatewayv1.HTTPRoute](t, text))
			}
			q := decision.Request{Service: types.NamespacedName{Namespace: "shop", Name: "cart"}, Port: 80, WorkloadPort: 8080,
				Request: precedence.Request{Path: "/", Method: "GET", Headers: map[string]string{"baggage": "sd-routing-key=k"}}}
			if tt.path != "" {
				q.Path = tt.path
			}
			got := decision.Of(all, q, objects)
			if got.By != tt.by || !strings.HasPrefix(got.Lost, tt.lost) || (got.Lost == "") != (tt.lost == "") || (got.Lost == "") != (got.Remedy == "") {
				t.Errorf("%+v", got)
			}
			for _, r := range all {
				r.SetOwnerReferences([]metav1.OwnerReference{})
			}
			if got := decision.Of(all, q, objects); got != (decision.Decision{}) {
				t.Errorf("without a RoutingConfig: %+v", got)
			}
		})
	}
	one, other := read[crdv1.IstioRoute](t, of("cart", routed)), read[crdv1.IstioRoute](t, of("other", `{`+conditions("HeaderMatched")+`}`))
	if got := decision.Of([]crdv1.MeshRoute{&one, &other}, decision.Request{}, decision.Objects{}); got.By != "" || got.Lost != "IstioRoute k-other is not ready (HeaderMatched)" || got.Remedy != "Do that." {
		t.Errorf("of a request to any Service: %+v", got)
	}
}
