package istioadapter_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/tests/world"
)

// TestAnEnvoyFilterThatNamesARoute creates an EnvoyFilter that applies to a route by its name. It
// would not apply to routes for sandboxes, which have other names.
func TestAnEnvoyFilterThatNamesARoute(t *testing.T) {
	w := world.Shared(t)
	define(w)
	_, err := envtest.InstallCRDs(w.Config, envtest.CRDInstallOptions{Paths: []string{"../gatewayadapter/testdata/policies.crds.yaml"}})
	w.Must(err)
	with := []string{"ours k1", "api", "ours k1", "rest"}
	for name, refuses := range map[string]bool{"refuse": true, "report": false} {
		t.Run(name, func(t *testing.T) {
			c := start(t, w, istioadapter.Settings{})
			c.stop()
			c.policies, c.refusesPolicies = []policies.Kind{policies.EnvoyFilters()}, refuses
			c.run(own, "system:masters")
			c.owner("create")
			c.sandbox("k1")
			c.has(with...)
			filter := &unstructured.Unstructured{}
			c.Read(filter, `{apiVersion: networking.istio.io/v1alpha3, kind: EnvoyFilter, metadata: {name: jwt, namespace: `+c.ns+`},
  spec: {configPatches: [{applyTo: HTTP_ROUTE, match: {routeConfiguration: {vhost: {route: {name: api}}}}, patch: {operation: MERGE, value: {}}}]}}`)
			c.Create(filter)
			target := istioadapter.Target{Key: "k1", Namespace: c.ns, Service: "customer"}
			named := fmt.Sprintf("Route api of VirtualService %s/customer is named by EnvoyFilter %s/jwt, which ", c.ns, c.ns)
			c.Eventually("the report names the policy", func() error {
				r := c.main.Report(target)
				if lost := r.Lost != nil && strings.Contains(r.Lost.Message, named+"would not apply"); lost != refuses {
					return fmt.Errorf("it is lost: %+v", r.Lost)
				}
				if noted := strings.Contains(strings.Join(r.Notes, "\n"), named+"does not apply"); noted == refuses {
					return fmt.Errorf("the notes are %q", r.Notes)
				}
				return nil
			})
			if refuses {
				c.has("api", "ours k1", "rest")
			} else {
				c.has(with...)
			}
			c.Must(c.Client.Delete(t.Context(), filter))
			c.has(with...)
		})
	}
}
