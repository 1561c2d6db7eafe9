package main

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/xds/xdstest"
)

// TestWaitIsAGate asks whether all sidecars of a key have its routes while no sidecar is
// connected: of workloads that need one, and of workloads that need none.
func TestWaitIsAGate(t *testing.T) {
	c := market(t, "gate", "")
	of := func(name string) (args []string) {
		address := telling(t, xdstest.Fork{Baseline: table.Workload{Kind: "Deployment", Namespace: "gate", Name: name}, Key: "k5", Sandbox: "sb",
			Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.9:8081")})
		return []string{"wait", "--key", "k5", "--timeout", "1s", "--server", address, "--namespace-of-operator", "gate-operator", "--kubeconfig"}
	}
	gives := func(why string, args []string, want exit.Code, says ...string) {
		t.Helper()
		code, out, errs := ask(t, args...)
		for _, s := range says {
			if code != want || !strings.Contains(out, s) {
				t.Errorf("%s: exit code %d, without %q:\n%s%s", why, code, s, out, errs)
			}
		}
	}
	cart, plain, gone := of("cart"), of("plain"), of("gone")
	admin, nobody := as(t, "", ""), as(t, "nobody", "")
	no := "not converged: 1 workload without a connected sidecar; "
	gives("ready sidecars that never connected", append(cart, admin), exit.No, no,
		"no sidecar of Deployment gate/cart is connected to a route server: requests with this key reach its baseline",
		"the sidecar is not connected to a route server, or has not acknowledged its rules, in cart-good, cart-lags: see switchyard sidecars, and kubectl logs -n gate cart-good -c sd-sidecar")
	gives("no sidecar, and none is asked for", append(plain, admin), exit.No, no, "Annotate its pod template with sidecar.signadot.com/inject: \"true\"")
	gives("a baseline that does not exist", append(gone, admin), exit.No, no)
	gives("a cluster that is not read", append(plain, nobody), exit.No, no, "Whether it needs one is not known", "run switchyard coverage -n gate")
	code, out, _ := ask(t, append(cart, admin, "-o", "json")...)
	var got struct {
		Converged   bool
		Unconnected []struct{ Kind, Namespace, Name string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exit.No || got.Converged || len(got.Unconnected) != 1 || got.Unconnected[0].Name != "cart" {
		t.Errorf("as JSON: exit code %d, %v\n%s", code, err, out)
	}

	c.Create(&crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "gate", Name: "f"},
		Spec: crdv1.ForkedWorkloadSpec{Baseline: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "gate", Name: "plain"}}})
	gives("a baseline without the annotation", append(plain, admin), exit.No, no, "it does not ask for sidecars: annotate its pod template")
	config := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "gate"}}
	c.Create(config)
	route := &crdv1.IstioRoute{}
	c.Read(route, `{metadata: {name: gate}, spec: {routingKey: k5, managed: {baseline: {workloadID: u, kind: Deployment, namespace: gate, name: plain},
  namespace: gate, targetService: plain, mappings: [], sandboxedWorkload: {kind: ForkedWorkload, namespace: gate, name: f}}}}`)
	route.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(config, crdv1.GroupVersion().WithKind(crdv1.KindRoutingConfig))}
	c.Create(route)
	route.Status.ObservedGeneration = route.Generation
	route.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "True", Reason: "Ready", LastTransitionTime: metav1.Now()}}
	must(t, c.Client.Status().Update(t.Context(), route))
	gives("a mesh routes it", append(plain, admin), exit.OK, "converged: no connected sidecar needs the rules of this key", "no workload of this key needs one")
	for _, pod := range []string{"cart-good", "cart-lags", "cart-old", "cart-starting", "cart-none"} {
		gives("there are pods", append(cart, admin), exit.No, no)
		must(t, c.Client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "gate", Name: pod}}, client.GracePeriodSeconds(0)))
	}
	gives("no pods", append(cart, admin), exit.OK, "converged: no connected sidecar needs the rules of this key", "no workload of this key needs one")
}
