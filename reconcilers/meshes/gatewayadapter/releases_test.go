package gatewayadapter_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/tests/world"
)

// TestAReleaseDoesNotTakeADerivedRouteForItsOwn has a Rollout select the routes in which it sets weights
// by a label that derived routes have, and later by none.
func TestAReleaseDoesNotTakeADerivedRouteForItsOwn(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	definePolicies(w)
	c := start(t, w, gatewayadapter.Settings{PreservedLabels: []string{"*"}})
	c.httpRoute("shop", "customer")
	c.sandbox("k1")
	c.derives("k1", "it has the labels of its original", func(r *gatewayv1.HTTPRoute) bool { return r.Labels["team"] == "shop" && r.Labels["app"] == "x" })
	rollout := &unstructured.Unstructured{}
	c.Read(rollout, `{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: customer, namespace: `+c.ns+`}, spec: {selector: {}, strategy: {canary: {
  stableService: customer, canaryService: other, trafficRouting: {plugins: {argoproj-labs/gatewayAPI: {httpRouteSelector: {matchLabels: {team: shop}}}}}}}}}`)
	c.Eventually("the Rollout is created", func() error { return c.routes.Create(t.Context(), rollout) })
	c.derives("k1", "it has lost the label", func(r *gatewayv1.HTTPRoute) bool { _, has := r.Labels["team"]; return !has && r.Labels["app"] == "x" })
	c.says("k1", "that it is derived", isDerived)
	c.Must(unstructured.SetNestedMap(rollout.Object, map[string]any{}, "spec", "strategy", "canary", "trafficRouting", "plugins", "argoproj-labs/gatewayAPI", "httpRouteSelector"))
	c.Must(c.routes.Update(t.Context(), rollout))
	c.says("k1", "that the Rollout selects all routes", func(r gatewayadapter.Report) bool {
		return r.Lost != nil && r.Lost.Reason == gatewayapi.ReasonReleaseSelectsRoutes
	})
	c.derivesNothing("k1")
	c.Must(c.routes.Delete(t.Context(), rollout))
	c.says("k1", "that it is derived again", isDerived)
}
