package manager_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/drain"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/tests/world"
)

// TestASandboxIsRoutedByTheGatewayAPI goes the whole way, without a sidecar: the cluster has no
// Gateway API, then gets it, then an HTTPRoute, and then the sandbox goes.
func TestASandboxIsRoutedByTheGatewayAPI(t *testing.T) {
	t.Parallel()
	const ns = "by-gateway-api"
	c := ownCluster(t, ns)
	c.manage(manager.Config{GatewayAPI: gatewayadapter.Settings{Enabled: true, Istio: true}})
	c.baseline(ns, "customer", "")
	s := c.sandbox("by-gateway-api", forkOf("k7", ns, "customer"))
	_, fork := c.fork(ns)
	c.Available(fork)
	c.unroutable(s, "Install the Gateway API")

	c.DefineGatewayAPI()
	c.unroutable(s, "No HTTPRoute or GRPCRoute refers to Service "+ns+"/customer", "kind: HTTPRoute, metadata: {name: customer, namespace: "+ns+"}")

	r := &unstructured.Unstructured{}
	c.Make(r, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: customer, namespace: `+ns+`},
  spec: {parentRefs: [{group: "", kind: Service, name: customer}], rules: [{backendRefs: [{name: customer, port: 80}]}]}}`)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	var all crdv1.GatewayAPIRouteList
	c.List(&all)
	if len(all.Items) != 1 {
		t.Fatalf("there are %d GatewayAPIRoutes", len(all.Items))
	}
	route := &all.Items[0]
	c.Condition(route, crdv1.ConditionReady, "True", "Ready")
	if m := route.Status.MatchedObjects; len(m) != 1 || m[0].Status != gatewayapi.StatusDerived || m[0].Derived == nil {
		t.Fatalf("it matches %+v", m)
	}
	derived := &unstructured.Unstructured{}
	derived.SetGroupVersionKind(r.GroupVersionKind())
	derived.SetNamespace(ns)
	derived.SetName(route.Status.MatchedObjects[0].Derived.Name)
	c.Get(derived)
	if o := derived.GetOwnerReferences(); len(o) != 1 || o[0].UID != route.UID {
		t.Errorf("its owners are %+v", o)
	}
	config := &crdv1.RoutingConfig{}
	config.Name = "k7"
	c.Condition(config, routing.ConditionGatewayAPIRoutesReady, "True", routing.ConditionGatewayAPIRoutesReady)
	if w := config.Status.ProcessedWorkloads; len(w) != 1 || len(w[0].Routes.GatewayAPI) != 1 || w[0].Routes.GatewayAPI[0].Name != route.Name {
		t.Errorf("the RoutingConfig tells of %+v", w)
	}

	c.Remove(s)
	c.Eventually("the derived route goes before the fork's Service", func() error {
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(derived), derived)
		if err == nil {
			if len(c.forks(ns)) == 0 {
				t.Fatal("the fork is gone, and the derived route still leads to it")
			}
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
	c.Gone(s)
	c.List(&all)
	if len(all.Items) > 0 {
		t.Errorf("left are %d GatewayAPIRoutes", len(all.Items))
	}

	s = c.sandbox("by-gateway-api", forkOf("k7", ns, "customer"))
	_, fork = c.fork(ns)
	c.Available(fork)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	c.Get(derived)
	var told bytes.Buffer
	c.Must(drain.Run(t.Context(), drain.Config{Client: c.program(), Wait: patience, Logger: slog.New(slog.NewTextHandler(&told, nil))}))
	if strings.Contains(told.String(), "level=WARN") {
		t.Errorf("something was forced:\n%s", &told)
	}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(derived), derived); !apierrors.IsNotFound(err) {
		t.Errorf("the operator is gone, and what it derived is there: %v", err)
	}
	c.Get(r)
}

// TestAVirtualServiceAndARouteNeverGovernOneService has both meshes on. A VirtualService goes
// before, whatever comes first.
func TestAVirtualServiceAndARouteNeverGovernOneService(t *testing.T) {
	t.Parallel()
	const ns = "by-both"
	c := ownCluster(t, ns)
	c.DefineIstio()
	c.DefineGatewayAPI()
	c.manage(manager.Config{Istio: istioadapter.Settings{Enabled: true}, GatewayAPI: gatewayadapter.Settings{Enabled: true, Istio: true}})
	c.baseline(ns, "customer", "")
	c.Make(&unstructured.Unstructured{}, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: customer, namespace: `+ns+`},
  spec: {parentRefs: [{group: "", kind: Service, name: customer}], rules: [{backendRefs: [{name: customer, port: 80}]}]}}`)
	s := c.sandbox("by-both", forkOf("k7", ns, "customer"))
	_, fork := c.fork(ns)
	c.Available(fork)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	routes := func() int {
		var all unstructured.UnstructuredList
		all.SetGroupVersionKind(gatewayadapter.HTTPRoutes)
		c.List(&all, client.InNamespace(ns))
		return len(all.Items)
	}
	if n := routes(); n != 2 {
		t.Fatalf("there are %d HTTPRoutes, not the owner's and ours", n)
	}
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")

	v := &unstructured.Unstructured{}
	c.Make(v, `{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: customer, namespace: `+ns+`},
  spec: {hosts: [customer], http: [{route: [{destination: {host: customer}}]}]}}`)
	governs := func(virtualService bool) {
		t.Helper()
		c.Eventually("one of the two governs the Service", func() error {
			c.Get(v)
			if n, m := len(routesOf(v)), routes(); virtualService && (n != 2 || m != 1) || !virtualService && (n != 1 || m != 2) {
				return fmt.Errorf("the VirtualService has %d routes, and there are %d HTTPRoutes", n, m)
			}
			return nil
		})
		c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	}
	governs(true)
	var all crdv1.GatewayAPIRouteList
	c.List(&all)
	c.Condition(&all.Items[0], crdv1.ConditionReady, "False", gatewayapi.ReasonVirtualService)

	world.Edit(c.World, v, func(v *unstructured.Unstructured) {
		v.Object["spec"] = map[string]any{"hosts": []any{"other"}, "http": []any{map[string]any{"route": []any{map[string]any{"destination": map[string]any{"host": "other"}}}}}}
	})
	governs(false)
}
