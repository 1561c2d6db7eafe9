package main

import (
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/world"
	"switchyard.dev/xds/xdstest"
)

// TestExplainShowsTheCaveatsOfTheSandbox asks about a request before its sandbox has caveats, and then.
func TestExplainShowsTheCaveatsOfTheSandbox(t *testing.T) {
	c := world.Shared(t)
	address := telling(t, xdstest.Fork{Baseline: table.Workload{Kind: "Deployment", Namespace: "cautioned", Name: "customer"}, Key: "k6", Sandbox: "cautioned",
		Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.9:8081")})
	explained := func(user string) string {
		_, out, _ := ask(t, "explain", "deployment/cautioned/customer", "--key", "k6", "--kubeconfig", as(t, user, ""), "--server", address)
		return out
	}
	if out := explained(""); strings.Contains(out, "aveat") {
		t.Errorf("without a sandbox:\n%s", out)
	}
	s := &crdv1.SignadotSandbox{}
	c.Make(s, `{metadata: {name: cautioned}, spec: {id: k6}}`)
	s.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionCaveats, Status: "True", Reason: "Caveats", Message: "Service a selects others too.\nThe baseline has 0 replicas.",
		LastTransitionTime: metav1.Now(), ObservedGeneration: s.Generation}}
	must(t, c.Client.Status().Update(t.Context(), s))
	const want = "Caveat of sandbox cautioned: Service a selects others too.\nCaveat of sandbox cautioned: The baseline has 0 replicas.\n"
	if out := explained(""); !strings.Contains(out, want) {
		t.Errorf("it shows\n%s", out)
	}
	if out := explained("nobody"); !strings.Contains(out, "The caveats of sandbox cautioned are not known: SignadotSandbox cautioned cannot be read, ask for the right: ") {
		t.Errorf("without the right it shows\n%s", out)
	}
}
