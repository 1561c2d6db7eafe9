package main

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/meshes/keymatch"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/conformance/served"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/wait"
	"switchyard.dev/xds/routingkey"
	"switchyard.dev/xds/xdstest"
)

// telling runs a route server that knows the facts of a fork, and returns where.
func telling(t *testing.T, f xdstest.Fork, change ...func(*factv1.WorkloadObserved)) string {
	t.Helper()
	log := memory.New()
	served.Begin(t, log)
	observed, declared := f.Facts()
	for _, do := range change {
		do(observed.Data.(*factv1.WorkloadObserved))
	}
	headers := event.Fact{Key: event.KeyHeaders, Data: &factv1.KeyHeadersDeclared{Names: []string{"x-team"}}}
	for _, fact := range []event.Fact{headers, observed, declared, {Key: event.Log, Data: &factv1.Complete{Reason: "first"}}} {
		_, err := log.Append(t.Context(), fact, 0)
		must(t, err)
	}
	m, _ := served.Run(t, server.Config{Log: log, Sidecars: pods(nil), Keys: routingkey.Find})
	wait.Holds(t, "the route server answers", func() bool {
		code, _, _ := ask(t, "table", "--server", m.GRPCAddress())
		return code == exit.OK
	})
	return m.GRPCAddress()
}

// TestExplainShowsTheDecisionOfIstio asks about a workload without sidecars, before it has an
// IstioRoute, and then.
func TestExplainShowsTheDecisionOfIstio(t *testing.T) {
	c := world.Shared(t)
	address := telling(t, xdstest.Fork{Baseline: table.Workload{Kind: "Deployment", Namespace: "meshed", Name: "customer"}, Key: "k5", Sandbox: "sb",
		Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.9:8081")})
	explained := func(args ...string) string {
		_, out, errs := ask(t, append([]string{"explain", "deployment/meshed/customer", "--kubeconfig", as(t, "", ""), "--server", address}, args...)...)
		_, after, found := strings.Cut(out, "Istio")
		if !strings.HasPrefix(out, "NO_SIDECAR") || !found {
			t.Fatalf("it says\n%s%s", out, errs)
		}
		return after
	}
	if out := explained("--key", "k5"); strings.Contains(out, "VirtualServices of the mesh decide") {
		t.Errorf("without an IstioRoute it says\n%s", out)
	}
	for _, key := range []string{"k5", "other"} {
		r := &crdv1.IstioRoute{}
		c.Make(r, `{metadata: {name: `+key+`-meshed}, spec: {routingKey: `+key+`, managed: {baseline: {workloadID: u, kind: Deployment, namespace: meshed, name: customer},
  namespace: meshed, targetService: customer, mappings: [], sandboxedWorkload: {kind: ForkedWorkload, namespace: meshed, name: f}}}}`)
		r.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "False", Reason: "HeaderMatched", Message: "Route a matches baggage.", LastTransitionTime: metav1.Now()}}
		r.Status.MatchedVirtualServices = []crdv1.VirtualServiceMatch{{Namespace: "meshed", Name: "a", Status: "Partial", Message: "Match another header."},
			{Namespace: "istio-system", Name: "b", Status: "Applied", Message: "Routes for the key: 2."}}
		must(t, c.Client.Status().Update(t.Context(), r))
	}
	const want = ` is on: the VirtualServices of the mesh decide.
IstioRoute k5-meshed, of Service meshed/customer: Ready is False (HeaderMatched): Route a matches baggage.
  VirtualService meshed/a is Partial: Match another header.
  VirtualService istio-system/b is Applied: Routes for the key: 2.
`
	if out := explained("--key", "k5"); !strings.HasSuffix(out, want) {
		t.Errorf("it says\n%s", out)
	}
	if out := explained("-H", "baggage: sd-routing-key=k4, sd-routing-key=k5"); !strings.HasSuffix(out, want+keymatch.SeveralMembers.Sentence+
		" (Guide to meshes, section Differences in key matching: several-members.)\n") {
		t.Errorf("of several members it says\n%s", out)
	}
	if out := explained("-H", "baggage: sd-routing-key=k5", "-H", "X-Team: k4"); !strings.Contains(out, keymatch.SeveralHeaders.Sentence) {
		t.Errorf("of a configured header beside it it says\n%s", out)
	}
	if _, out, _ := ask(t, "explain", "deployment/meshed/customer", "--key", "k5", "--kubeconfig", as(t, "nobody", ""), "--server", address); !strings.Contains(out, "Whether a mesh routes it is not known: the istioroutes of all namespaces may not be listed") {
		t.Errorf("without the right it says\n%s", out)
	}
}

// TestExplainShowsTheDecisionOfTheGatewayAPI queries a workload without sidecars, for which
// routes were derived, in clusters with and without IstioRoutes of it.
func TestExplainShowsTheDecisionOfTheGatewayAPI(t *testing.T) {
	c := world.Shared(t)
	address := telling(t, xdstest.Fork{Baseline: table.Workload{Kind: "Deployment", Namespace: "gated", Name: "customer"}, Key: "k6", Sandbox: "sb",
		Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.9:8081")})
	const asked = `, spec: {routingKey: k6, managed: {baseline: {workloadID: u, kind: Deployment, namespace: gated, name: customer},
  namespace: gated, targetService: customer, mappings: [], sandboxedWorkload: {kind: ForkedWorkload, namespace: gated, name: f}}}}`
	r := &crdv1.GatewayAPIRoute{}
	c.Make(r, `{metadata: {name: k6-gated}`+asked)
	r.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "False", Reason: "RequestsLost", Message: "Requests such as GET / are lost.", LastTransitionTime: metav1.Now()}}
	route := func(name string) crdv1.RouteObject {
		return crdv1.RouteObject{Kind: "HTTPRoute", Namespace: "gated", Name: name}
	}
	r.Status.MatchedObjects = []crdv1.MatchedObject{{Baseline: route("a"), Status: "Ignored", Message: "It has the annotation."}, {Baseline: route("b"), Derived: new(route("b-k6")), Status: "Derived"}}
	must(t, c.Client.Status().Update(t.Context(), r))
	const want = `The Gateway API is on: HTTPRoutes and GRPCRoutes decide where no VirtualService routes to the Service.
GatewayAPIRoute k6-gated, of Service gated/customer: Ready is False (RequestsLost): Requests such as GET / are lost.
  beside HTTPRoute gated/a stands nothing (Ignored): It has the annotation.
  beside HTTPRoute gated/b stands HTTPRoute gated/b-k6, which is Derived
`
	explained := func() string {
		_, out, _ := ask(t, "explain", "deployment/gated/customer", "--key", "k6", "--kubeconfig", as(t, "", ""), "--server", address)
		return out
	}
	if out := explained(); !strings.HasSuffix(out, "\n"+want) || strings.Contains(out, "Istio is on") {
		t.Errorf("it says\n%s", out)
	}
	c.Make(&crdv1.IstioRoute{}, `{metadata: {name: k6-gated}`+asked)
	if out := explained(); !strings.HasSuffix(out, "\nIstio is on: the VirtualServices of the mesh decide.\nIstioRoute k6-gated, of Service gated/customer: nothing is known of it yet\n"+want) {
		t.Errorf("with both it says\n%s", out)
	}
}

// TestExplainNamesTheMeshRouteThatDecides asks about workloads without sidecars that a mesh routes.
func TestExplainNamesTheMeshRouteThatDecides(t *testing.T) {
	c := world.Shared(t)
	fork := xdstest.Fork{Baseline: table.Workload{Kind: "Deployment", Namespace: "decided", Name: "customer"}, Key: "k9", Sandbox: "sb",
		Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.9:8081")}
	address := telling(t, fork)
	explained := func(want exit.Code, begins string, args ...string) {
		t.Helper()
		code, out, errs := ask(t, append([]string{"explain", "--key", "k9", "--kubeconfig", as(t, "", ""), "--server", address}, args...)...)
		if code != want || !strings.HasPrefix(out, begins) {
			t.Errorf("exit code %d, not %d, and it begins not with %q:\n%s%s", code, want, begins, out, errs)
		}
	}
	const asked = `, ownerReferences: [{apiVersion: signadot.com/v1, kind: RoutingConfig, name: k9, uid: u, controller: true}]},
  spec: {routingKey: k9, managed: {baseline: {workloadID: u, kind: Deployment, namespace: decided, name: customer},
  namespace: decided, targetService: customer, mappings: [{fromPort: 80, toService: fork, workloadPort: 8080}], sandboxedWorkload: {kind: ForkedWorkload, namespace: decided, name: f}}}}`
	r := &crdv1.IstioRoute{}
	c.Make(r, `{metadata: {name: k9-decided`+asked)
	explained(exit.No, "NO_SIDECAR", "deployment/decided/customer")
	r.Status.ObservedGeneration = r.Generation
	r.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "True", Reason: "Ready", LastTransitionTime: metav1.Now()}}
	r.Status.MatchedVirtualServices = []crdv1.VirtualServiceMatch{{Namespace: "decided", Name: "a", Status: "Applied"}, {Namespace: "decided", Name: "b", Status: "Ignored"}}
	must(t, c.Client.Status().Update(t.Context(), r))
	const istio = `ROUTED  IstioRoute k9-decided (VirtualService decided/a) routes the request to sandbox "sb", so no DevMesh sidecar is needed.`
	explained(exit.OK, istio, "deployment/decided/customer")
	explained(exit.OK, istio, "deployment/decided/customer", "--port", "8080")
	explained(exit.OK, "{", "deployment/decided/customer", "-o", "json")

	explained(exit.OK, istio, "http://customer.decided/x?y=z", "--method", "POST")

	r.Status.Conditions[0].Status, r.Status.Conditions[0].Reason, r.Status.MatchedVirtualServices = "False", "NoVirtualService", nil
	must(t, c.Client.Status().Update(t.Context(), r))
	g := &crdv1.GatewayAPIRoute{}
	c.Make(g, `{metadata: {name: k9-decided`+asked)
	g.Status.ObservedGeneration = g.Generation
	g.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "True", Reason: "Ready", LastTransitionTime: metav1.Now()}}
	route := crdv1.RouteObject{Kind: "HTTPRoute", Namespace: "decided", Name: "a"}
	g.Status.MatchedObjects = []crdv1.MatchedObject{{Baseline: route, Derived: &crdv1.RouteObject{Kind: "HTTPRoute", Namespace: "decided", Name: "a-k9"}, Status: "Derived"}}
	must(t, c.Client.Status().Update(t.Context(), g))
	explained(exit.No, "NO_SIDECAR", "deployment/decided/customer") // Only gateways have the route.
	g.Status.MatchedObjects[0].ParentKinds = []string{"Service"}
	must(t, c.Client.Status().Update(t.Context(), g))
	explained(exit.OK, `ROUTED  GatewayAPIRoute k9-decided (HTTPRoute decided/a-k9) routes the request to sandbox "sb", so`, "deployment/decided/customer")

	// Routes of the mesh decide by path and method.
	c.DefineGatewayAPI()
	c.Namespaces("decided")
	for name, match := range map[string]string{"a": "{}", "a-k9": "{headers: [{name: baggage, value: sd-routing-key=k9}]}", "own": "{path: {type: Exact, value: /own}, method: POST}"} {
		c.Make(&unstructured.Unstructured{}, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: `+name+`, namespace: decided},
  spec: {parentRefs: [{group: "", kind: Service, name: customer}], rules: [{matches: [`+match+`], backendRefs: [{name: customer, port: 80}]}]}}`)
	}
	explained(exit.OK, `ROUTED  GatewayAPIRoute k9-decided (HTTPRoute decided/a-k9) routes`, "http://customer.decided/own")
	explained(exit.No, `NO_SIDECAR  Neither a DevMesh sidecar nor a mesh routes the request to sandbox "sb", so it goes to the baseline: HTTPRoute decided/own has precedence for POST customer.decided.svc.cluster.local/own`,
		"http://customer.decided/own?x=y", "--method", "POST")

	r.Status.Conditions[0].Reason, r.Status.Conditions[0].Message = "HiddenBySidecar", "Sidecar decided/default does not list VirtualService routes/a."
	r.Status.MatchedVirtualServices = []crdv1.VirtualServiceMatch{{Namespace: "routes", Name: "a", Status: "Applied"}}
	must(t, c.Client.Status().Update(t.Context(), r))
	explained(exit.No, `NO_SIDECAR  Neither a DevMesh sidecar nor a mesh routes the request to sandbox "sb", so it goes to the baseline: IstioRoute k9-decided is not ready (HiddenBySidecar).`, "deployment/decided/customer")
	if _, out, _ := ask(t, "explain", "--key", "k9", "--kubeconfig", as(t, "", ""), "--server", address, "deployment/decided/customer"); !strings.Contains(out, "Sidecar decided/default does not list") || strings.Contains(out, "annotation sidecar.signadot.com/inject") {
		t.Errorf("the remedy is missing:\n%s", out)
	}
}

// TestExplainNamesTheSandboxThatHoldsAKeyBesideAMesh has two sandboxes fork one baseline under one key.
func TestExplainNamesTheSandboxThatHoldsAKeyBesideAMesh(t *testing.T) {
	c := world.Shared(t)
	fork := xdstest.Fork{Baseline: table.Workload{Kind: "Deployment", Namespace: "contested", Name: "customer"}, Key: "k10", Sandbox: "older",
		Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.9:8081")}
	log := memory.New()
	served.Begin(t, log)
	observed, declared := fork.Facts()
	fork.Sandbox = "younger"
	second, other := fork.Facts()
	second.Data.(*factv1.WorkloadObserved).Created.Seconds++
	of := declared.Data.(*factv1.RoutingDeclared)
	of.Members = append(of.Members, other.Data.(*factv1.RoutingDeclared).GetMembers()...)
	for _, fact := range []event.Fact{observed, second, declared, {Key: event.Log, Data: &factv1.Complete{Reason: "first"}}} {
		_, err := log.Append(t.Context(), fact, 0)
		must(t, err)
	}
	m, _ := served.Run(t, server.Config{Log: log, Sidecars: pods(nil), Keys: routingkey.Find})
	r := &crdv1.IstioRoute{}
	c.Make(r, `{metadata: {name: k10-contested, ownerReferences: [{apiVersion: signadot.com/v1, kind: RoutingConfig, name: k10, uid: u, controller: true}]},
  spec: {routingKey: k10, managed: {baseline: {workloadID: u, kind: Deployment, namespace: contested, name: customer},
  namespace: contested, targetService: customer, mappings: [{fromPort: 80, toService: fork, workloadPort: 8080}], sandboxedWorkload: {kind: ForkedWorkload, namespace: contested, name: f}}}}`)
	r.Status.ObservedGeneration = r.Generation
	r.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "True", Reason: "Ready", LastTransitionTime: metav1.Now()}}
	r.Status.MatchedVirtualServices = []crdv1.VirtualServiceMatch{{Namespace: "contested", Name: "a", Status: "Applied"}}
	must(t, c.Client.Status().Update(t.Context(), r))
	const want = `LOST  IstioRoute k10-contested (VirtualService contested/a) routes the request to sandbox "older": a younger one forks the same baseline`
	c.Eventually("it names the older sandbox", func() error {
		if code, out, errs := ask(t, "explain", "deployment/contested/customer", "--key", "k10", "--kubeconfig", as(t, "", ""), "--server", m.GRPCAddress()); code != exit.No || !strings.HasPrefix(out, want) {
			return fmt.Errorf("exit code %d: %s%s", code, out, errs)
		}
		return nil
	})
}
