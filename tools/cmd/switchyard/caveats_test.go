package main

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
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

// TestExplainShowsWhyNoSidecarIsConnected asks about requests to workloads of which no sidecar is connected:
// its pods are there, there are none, there are those of a Rollout of the same name, and there are pods without
// sidecars, which coverage does not list.
func TestExplainShowsWhyNoSidecarIsConnected(t *testing.T) {
	c := market(t, "silent", "")
	c.Make(&corev1.Pod{}, strings.ReplaceAll(strings.ReplaceAll(podOf("rolled", "rolled-1", "2"), "NS", "silent"),
		"pod-template-hash", "rollouts-pod-template-hash"))
	c.Make(&corev1.Pod{}, strings.ReplaceAll(strings.ReplaceAll(podOf("bare", "bare-1", ""), "NS", "silent"),
		"pod-template-hash", "rollouts-pod-template-hash"))
	for name, want := range map[string]string{
		"cart":    "The sidecar is not connected to a route server, or has not acknowledged its rules, in ",
		"nothing": "Deployment silent/nothing has no pods, so nothing answers the request. Scale it up, or see kubectl describe -n silent deployment/nothing.\n",
		"plain":   "Annotate its pod template with sidecar.signadot.com/inject: \"true\", and see switchyard coverage -n silent.\n",
		"bare":    "Deployment silent/bare has no pods: those behind its Services belong to ArgoRollout silent/bare. Name that in the sandbox.\n",
		"rolled":  "Deployment silent/rolled has no pods: those behind its Services belong to ArgoRollout silent/rolled. Name that in the sandbox.\n",
	} {
		address := telling(t, xdstest.Fork{Baseline: table.Workload{Kind: "Deployment", Namespace: "silent", Name: name}, Key: "k7", Sandbox: "silent",
			Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.9:8081")}, func(o *factv1.WorkloadObserved) { o.DevMeshPresent = true })
		_, out, errs := ask(t, "explain", "deployment/silent/"+name, "--key", "k7", "--kubeconfig", as(t, "", ""), "--server", address, "--namespace-of-operator", "silent-operator")
		if !strings.HasPrefix(out, "NOT_ACKNOWLEDGED") || !strings.Contains(out, want) || strings.Contains(out, "has no pods") != strings.Contains(want, "has no pods") {
			t.Errorf("%s:\n%s%s", name, out, errs)
		}
	}
}
