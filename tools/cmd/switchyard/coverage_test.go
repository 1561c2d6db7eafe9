package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/routing/sidecars"
)

// market makes a namespace with workloads and pods in every state, and an operator
// that injects sidecar:2 and init:2.
func market(t *testing.T, ns, labels string) *world.World {
	t.Helper()
	c := world.Shared(t)
	make := func(o client.Object, text string) { c.Make(o, strings.ReplaceAll(text, "NS", ns)) }
	make(&corev1.Namespace{}, "metadata: {name: NS, labels: {"+labels+"}}")
	make(&corev1.Namespace{}, "metadata: {name: NS-operator}")
	make(&corev1.ConfigMap{}, `
metadata: {name: cluster-config, namespace: NS-operator}
data: {cluster_config.yaml: "routing: {iptablesMode: nft}"}`)
	make(&appsv1.Deployment{}, `
metadata: {name: signadot-controller-manager, namespace: NS-operator}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: manager, image: m, env: [{name: ROUTE_SIDECAR_IMAGE, value: "sidecar:2"}, {name: SIDECAR_INIT_IMAGE, value: "init:2"}]}]}`)
	for name, inject := range map[string]string{"cart": `sidecar.signadot.com/inject: "true"`, "plain": "", "not": `sidecar.signadot.com/inject: "false"`} {
		make(&appsv1.Deployment{}, `
metadata: {name: `+name+`, namespace: NS}
spec:
  selector: {matchLabels: {app: `+name+`}}
  template:
    metadata: {labels: {app: `+name+`}, annotations: {`+inject+`}}
    spec: {containers: [{name: main, image: m}]}`)
		make(&corev1.Service{}, "{metadata: {name: "+name+", namespace: NS}, spec: {selector: {app: "+name+"}, ports: [{port: 80}]}}")
		make(&corev1.Pod{}, podOf(name, name+"-none", ""))
	}
	ready := func(name, images string, is bool) {
		p := &corev1.Pod{}
		make(p, podOf("cart", name, images))
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "sd-sidecar", Ready: is}}}
		must(t, c.Client.Status().Update(t.Context(), p))
	}
	ready("cart-good", "2", true)
	ready("cart-old", "1", true)
	ready("cart-starting", "2", false)
	ready("cart-lags", "2", true)
	return c
}

// podOf is a pod of a Deployment, with our containers of a version, or without.
func podOf(deployment, name, version string) string {
	ours, label := "", ""
	if version != "" {
		ours = `, {name: sd-sidecar, image: "sidecar:` + version + `"}], initContainers: [{name: sd-sidecar-init, image: "init:` + version + `"}`
		label = `, sidecar.signadot.com/injected: "true"`
	}
	return `
metadata:
  name: ` + name + `
  namespace: NS
  labels: {pod-template-hash: h` + label + `}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: ` + deployment + `-h, uid: u, controller: true}]
spec: {automountServiceAccountToken: false, containers: [{name: main, image: m}` + ours + `]}`
}

func TestCoverageShowsEachPodAndTheRemedy(t *testing.T) {
	c := market(t, "market", "")
	cart := table.Workload{Kind: "Deployment", Namespace: "market", Name: "cart"}
	_, address := serving(t, receipts.Sidecar{Namespace: "market", Pod: "cart-good", Baseline: cart, Acknowledged: "b", Due: "b"},
		receipts.Sidecar{Namespace: "market", Pod: "cart-lags", Baseline: cart, Acknowledged: "a", Due: "b"})
	args := []string{"coverage", "-n", "market", "--kubeconfig", as(t, "", ""), "--server", address, "--namespace-of-operator", "market-operator"}
	code, out, errs := ask(t, args...)
	want := `WORKLOAD                PODS  OK  OUTDATED  BEHIND  NOT READY  MISSING  NOT NEEDED
Deployment market/cart  5     1   1         1       1          1        0

Deployment market/cart
  cart-none started before a sidecar was asked for, or while the operator was away: kubectl rollout restart -n market deployment/cart
  the sidecar is not ready in cart-starting: kubectl logs -n market cart-starting -c sd-sidecar
  the sidecar is OUTDATED in cart-old (injected with another image of the sidecar and of the init container than now): kubectl rollout restart -n market deployment/cart
  the sidecar is not connected to a route server, or has not acknowledged its rules, in cart-lags: see switchyard sidecars, and kubectl logs -n market cart-lags -c sd-sidecar
1 workload, 0 covered
`
	if diff := cmp.Diff(want, out); diff != "" || code != exit.No {
		t.Errorf("exit code %d (-want +got):\n%s%s", code, diff, errs)
	}

	// While the API server refuses new pods its words are shown, and no restart is advised.
	d := &appsv1.Deployment{}
	must(t, c.Client.Get(t.Context(), client.ObjectKey{Namespace: "market", Name: "cart"}, d))
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "exceeded quota: objects"}}
	must(t, c.Client.Status().Update(t.Context(), d))
	if _, out, _ = ask(t, args...); !strings.Contains(out, "\n  the API server refuses new pods (exceeded quota: objects): raise that quota") || strings.Contains(out, "rollout restart") {
		t.Errorf("while new pods are refused:\n%s", out)
	}
	d.Status.Conditions = nil
	must(t, c.Client.Status().Update(t.Context(), d))

	// A fork makes its baseline one of those that matter, and everything covered is yes.
	c.Create(&crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "market", Name: "f"},
		Spec: crdv1.ForkedWorkloadSpec{Baseline: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "market", Name: "plain"}}})
	if code, out, _ = ask(t, args...); code != exit.No || !strings.Contains(out, `it does not ask for sidecars: annotate its pod template`) {
		t.Errorf("exit code %d\n%s", code, out)
	}
	// Istio routes it: it needs no sidecar, for as long as all its IstioRoutes are ready.
	config := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "market"}}
	c.Create(config)
	for _, name := range []string{"market-80", "market-81"} {
		route := &crdv1.IstioRoute{}
		c.Read(route, `{metadata: {name: `+name+`}, spec: {routingKey: k, managed: {baseline: {workloadID: u, kind: Deployment, namespace: market, name: plain},
  namespace: market, targetService: `+name+`, mappings: [], sandboxedWorkload: {kind: ForkedWorkload, namespace: market, name: f}}}}`)
		route.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(config, crdv1.GroupVersion().WithKind(crdv1.KindRoutingConfig))}
		c.Create(route)
		if _, out, _ = ask(t, args...); !strings.Contains(out, "\nDeployment market/plain  1     0   0         0       0          1        0\n") {
			t.Errorf("its IstioRoute %s is not ready:\n%s", name, out)
		}
		route.Status.ObservedGeneration = route.Generation
		route.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "True", Reason: "Ready", LastTransitionTime: metav1.Now()}}
		must(t, c.Client.Status().Update(t.Context(), route))
		if _, out, _ = ask(t, args...); !strings.Contains(out, "\nDeployment market/plain  1     0   0         0       0          0        1\n") {
			t.Errorf("VirtualServices route it:\n%s", out)
		}
	}
	for _, name := range []string{"market-80", "market-81"} {
		c.Remove(&crdv1.IstioRoute{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	// So it is with routes of the Gateway API, if one of their parents is a Service.
	route := &crdv1.GatewayAPIRoute{}
	c.Read(route, `{metadata: {name: market}, spec: {routingKey: k, managed: {baseline: {workloadID: u, kind: Deployment, namespace: market, name: plain},
  namespace: market, targetService: plain, mappings: [], sandboxedWorkload: {kind: ForkedWorkload, namespace: market, name: f}}}}`)
	route.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(config, crdv1.GroupVersion().WithKind(crdv1.KindRoutingConfig))}
	c.Create(route)
	for parent, counts := range map[string]string{"Gateway": "1        0", "Service": "0        1"} {
		route.Status.ObservedGeneration = route.Generation
		route.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "True", Reason: "Ready", LastTransitionTime: metav1.Now()}}
		route.Status.MatchedObjects = []crdv1.MatchedObject{{Baseline: crdv1.RouteObject{Kind: "HTTPRoute", Namespace: "market", Name: "r"},
			Derived: &crdv1.RouteObject{Kind: "HTTPRoute", Namespace: "market", Name: "r-k"}, Status: "Derived", ParentKinds: []string{parent}}}
		must(t, c.Client.Status().Update(t.Context(), route))
		if _, out, _ = ask(t, args...); !strings.Contains(out, "\nDeployment market/plain  1     0   0         0       0          "+counts+"\n") {
			t.Errorf("HTTPRoutes of a %s route it:\n%s", parent, out)
		}
	}
	c.Remove(route)
	// Without the Service it is a consumer of messages, as it were: it needs no sidecar.
	c.Remove(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "market", Name: "plain"}})
	if _, out, _ = ask(t, args...); !strings.Contains(out, "\nDeployment market/plain  1     0   0         0       0          0        1\n") ||
		!strings.Contains(out, "2 workloads, 1 covered") {
		t.Errorf("no Service leads to it:\n%s", out)
	}
	for _, gone := range []string{"plain-none", "cart-none", "cart-old", "cart-starting", "cart-lags"} {
		c.Remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "market", Name: gone}})
	}
	c.Remove(&crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "market", Name: "f"}})
	code, out, errs = ask(t, append(args, "-o", "json")...)
	var got sidecars.Coverage
	must(t, json.Unmarshal([]byte(out), &got))
	none := []string{}
	if diff := cmp.Diff(sidecars.Coverage{Unknown: none, Workloads: []sidecars.Workload{{
		Kind: "Deployment", Namespace: "market", Name: "cart", Asks: true, Covered: true, Pods: 1, OK: []string{"cart-good"},
		Outdated: none, Behind: none, NotReady: none, Missing: none, NotNeeded: none, ToDo: none,
	}}}, got); diff != "" || code != exit.OK {
		t.Errorf("exit code %d (-want +got):\n%s%s", code, diff, errs)
	}
}

// Somebody asks about the pod that answered from the baseline: its sidecar is of another
// image than pods get now.
func TestExplainOfAPodReportsAnOutdatedSidecar(t *testing.T) {
	market(t, "bazaar", "")
	cart := table.Workload{Kind: "Deployment", Namespace: "bazaar", Name: "cart"}
	_, address := serving(t, receipts.Sidecar{Namespace: "bazaar", Pod: "cart-old", Baseline: cart, Acknowledged: "b", Due: "b"})
	for pod, outdated := range map[string]bool{"cart-old": true, "cart-good": false} {
		_, out, errs := ask(t, "explain", "deployment/bazaar/cart", "--key", "k", "--pod", "bazaar/"+pod,
			"--kubeconfig", as(t, "", ""), "--server", address, "--namespace-of-operator", "bazaar-operator")
		if strings.Contains(out, "Pod bazaar/"+pod+" is OUTDATED: injected with another image of the sidecar and of the init container than now. Restart it: kubectl") != outdated {
			t.Errorf("%s: outdated is %t:\n%s%s", pod, outdated, out, errs)
		}
	}
	_, out, _ := ask(t, "explain", "deployment/bazaar/cart", "--key", "k", "--pod", "bazaar/cart-old", "--kubeconfig", "/dev/null", "--server", address)
	if !strings.Contains(out, "Whether the sidecar of pod bazaar/cart-old is outdated is not known: ") {
		t.Errorf("without a cluster:\n%s", out)
	}
}

func TestCoverageOfANamespaceThatAsks(t *testing.T) {
	market(t, "asking", `sidecar.signadot.com/inject: "true"`)
	_, address := serving(t)
	_, out, errs := ask(t, "coverage", "-n", "asking", "--kubeconfig", as(t, "", ""), "--server", address, "--namespace-of-operator", "asking-operator")
	for name, want := range map[string]bool{"cart ": true, "plain": true, "not ": false} {
		if strings.Contains(out, "Deployment asking/"+name) != want {
			t.Errorf("%s is shown: %t, want %t\n%s%s", name, !want, want, out, errs)
		}
	}
}

func TestCoverageListsUnreadableSources(t *testing.T) {
	c := market(t, "narrow", "")
	c.Grant("narrow", "narrow", rbacv1.PolicyRule{APIGroups: []string{"", "apps"}, Resources: []string{"pods", "deployments"}, Verbs: []string{"list"}})
	config := as(t, "narrow", "")
	code, out, errs := ask(t, "coverage", "-n", "narrow", "--kubeconfig", config, "--namespace-of-operator", "narrow-operator")
	for _, says := range []string{
		"Deployment narrow/cart  5     3   ?         ?       1          1        0", "it is not known which workloads no Service selects",
		"it is not known which sidecars are outdated: ", "it is not known which sidecars are behind: no route server was reached",
		"workloads for which only their namespace asks", "workloads that have a fork and no sidecar at all are not shown",
		"0 covered as far as the cluster shows: it is unknown whether their sidecars have current routes",
		"no route server was reached.\n      --server and SWITCHYARD_SERVER name none\n",
	} {
		if !strings.Contains(out, says) {
			t.Errorf("it does not say %q", says)
		}
	}
	if code != exit.No || t.Failed() {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	for name, tt := range map[string]struct {
		args []string
		code exit.Code
		says string
	}{
		"without rights":     {[]string{"-n", "default", "--kubeconfig", config}, exit.Failed, "the pods of namespace default may not be listed: ask for the right"},
		"all namespaces":     {[]string{"--kubeconfig", config}, exit.Failed, "the pods of all namespaces may not be listed: name one with --namespace"},
		"no such namespace":  {[]string{"-n", "nosuch", "--kubeconfig", as(t, "", "")}, exit.Failed, "there is no namespace nosuch"},
		"an archive":         {[]string{"--archive", "log"}, exit.Usage, "omit --archive"},
		"without kubeconfig": {[]string{"--kubeconfig", "/dev/null"}, exit.Unavailable, "coverage reads the cluster: there is no kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := ask(t, append([]string{"coverage"}, tt.args...)...)
			if code != tt.code || !strings.Contains(errs, tt.says) {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
		})
	}
}
