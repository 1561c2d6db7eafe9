package gatewayadapter_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/tests/world"
)

// definePolicies makes the API server serve the kinds of policies of these tests.
func definePolicies(w *world.World) {
	w.Helper()
	_, err := envtest.InstallCRDs(w.Config, envtest.CRDInstallOptions{Paths: []string{"testdata/policies.crds.yaml"}})
	w.Must(err)
}

// policy creates a policy from YAML in the namespace of the test.
func (c *cluster) policy(text string) *unstructured.Unstructured {
	c.Helper()
	u := &unstructured.Unstructured{}
	c.Read(u, text)
	u.SetNamespace(c.ns)
	c.Eventually("the policy is created", func() error { return c.routes.Create(c.Context(), u) })
	return u
}

// TestNoRouteIsDerivedPastAPolicy creates a policy that targets a route in each known form. The
// derived route would have another name, so the policy would not apply to it.
func TestNoRouteIsDerivedPastAPolicy(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	definePolicies(w)
	for name, tt := range map[string]struct{ policy, says string }{
		"targetRefs": {`{apiVersion: gateway.envoyproxy.io/v1alpha1, kind: SecurityPolicy, metadata: {name: jwt},
  spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop, sectionName: pay}]}}`, "SecurityPolicy NS/jwt targets HTTPRoute NS/shop"},
		"targetRef": {`{apiVersion: kuadrant.io/v1, kind: AuthPolicy, metadata: {name: login},
  spec: {targetRef: {group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}}}`, "AuthPolicy NS/login targets HTTPRoute NS/shop"},
		"targetSelectors": {`{apiVersion: gateway.envoyproxy.io/v1alpha1, kind: SecurityPolicy, metadata: {name: jwt},
  spec: {targetSelectors: [{group: gateway.networking.k8s.io, kind: HTTPRoute, matchLabels: {app: x}}]}}`, "SecurityPolicy NS/jwt selects HTTPRoute NS/shop by label app"},
		"the Service": {`{apiVersion: networking.gke.io/v1, kind: GCPBackendPolicy, metadata: {name: iap},
  spec: {targetRef: {group: "", kind: Service, name: customer}}}`, "GCPBackendPolicy NS/iap targets Service NS/customer"},
		"the name of the route in Envoy": {`{apiVersion: networking.istio.io/v1alpha3, kind: EnvoyFilter, metadata: {name: jwt},
  spec: {configPatches: [{applyTo: HTTP_ROUTE, match: {routeConfiguration: {vhost: {route: {name: NS.shop.0}}}}, patch: {operation: MERGE, value: {}}}]}}`, "EnvoyFilter NS/jwt names a route of HTTPRoute NS/shop"},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, w, gatewayadapter.Settings{})
			c.httpRoute("shop", "customer")
			c.policy(strings.ReplaceAll(tt.policy, "NS", c.ns))
			c.sandbox("k1")
			message := strings.ReplaceAll(tt.says, "NS", c.ns)
			c.says("k1", "which policy is in the way, and what to do", func(r gatewayadapter.Report) bool {
				return r.Lost != nil && r.Lost.Reason == "PolicyNotApplied" && strings.HasPrefix(r.Lost.Message, message) && strings.Contains(r.Lost.Message, "policies.routes")
			})
			c.derivesNothing("k1")
		})
	}
}

// TestNoRouteIsDerivedPastPluginsOfAService gives the backend of a route plugins of Kong, which
// the Service of the sandbox has not, and takes them away again.
func TestNoRouteIsDerivedPastPluginsOfAService(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	definePolicies(w)
	c := start(t, w, gatewayadapter.Settings{})
	c.httpRoute("shop", "customer")
	c.sandbox("k1")
	c.says("k1", "that it is derived", isDerived)
	annotate := func(plugins string) {
		var s corev1.Service
		c.Must(c.Client.Get(t.Context(), client.ObjectKey{Namespace: c.ns, Name: "customer"}, &s))
		s.Annotations = map[string]string{"konghq.com/plugins": plugins}
		c.Must(c.Client.Update(t.Context(), &s))
		c.main.Changed(&s)
	}
	annotate("jwt")
	message := "Annotation konghq.com/plugins applies plugins (jwt) to Service " + c.ns + "/customer"
	c.says("k1", "which plugins are in the way", func(r gatewayadapter.Report) bool {
		return r.Lost != nil && r.Lost.Reason == "PolicyNotApplied" && strings.HasPrefix(r.Lost.Message, message)
	})
	c.derivesNothing("k1")
	annotate("")
	c.says("k1", "that it is derived again", isDerived)
}

// derivesNothing waits until no route is derived for a key, although it is asked for.
func (c *cluster) derivesNothing(key string) {
	c.Helper()
	c.Eventually("no route is derived for "+key, func() error {
		if n := len(c.derivedOf(key)); n > 0 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}

// TestAPolicyThatComesLaterRemovesDerivedRoutes creates a policy after the route was derived, and
// deletes it again.
func TestAPolicyThatComesLaterRemovesDerivedRoutes(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	definePolicies(w)
	c := start(t, w, gatewayadapter.Settings{})
	c.httpRoute("shop", "customer")
	// Its requests are others: of two routes with the same, the older one has precedence, by seconds.
	c.makeRoute(&gatewayv1.HTTPRoute{}, `{metadata: {name: other, namespace: `+c.ns+`},
  spec: {parentRefs: [{name: edge}], hostnames: [shop.test], rules: [{matches: [{path: {type: PathPrefix, value: /other}}], backendRefs: [{name: customer, port: 8081}]}]}}`)
	fork := c.sandbox("k1")
	c.says("k1", "that both are derived", func(r gatewayadapter.Report) bool { return isDerived(r) && len(r.Matches) == 2 })
	jwt := c.policy(`{apiVersion: gateway.envoyproxy.io/v1alpha1, kind: SecurityPolicy, metadata: {name: jwt},
  spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]}}`)
	c.derives("k1", "the one beside the other route stays", func(r *gatewayv1.HTTPRoute) bool { return strings.HasPrefix(r.Name, "other-") && leadsTo(fork)(r) })
	c.Must(c.routes.Delete(c.Context(), jwt))
	c.says("k1", "that both are derived again", func(r gatewayadapter.Report) bool { return isDerived(r) && len(r.Matches) == 2 })
}
