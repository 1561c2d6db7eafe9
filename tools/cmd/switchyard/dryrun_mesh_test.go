package main

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard/command/exit"
)

// TestADryRunGoesByTheMeshThatIsOn asks about a sandbox of a workload without sidecars: without a
// mesh, with Istio, with an unreadable configuration of the operator, and with the Gateway API,
// which has no route for it.
func TestADryRunGoesByTheMeshThatIsOn(t *testing.T) {
	args := shop(t, "dry-by-mesh", "routing: {istio: {enabled: true}}")
	w := world.Shared(t)
	w.DefineIstio()
	w.DefineGatewayAPI()
	w.Namespaces("dry-meshed")
	w.Make(&appsv1.Deployment{}, `
metadata: {name: customer, namespace: dry-meshed}
spec:
  selector: {matchLabels: {app: customer}}
  template:
    metadata: {labels: {app: customer}}
    spec: {containers: [{name: main, image: "customer:1", ports: [{name: http, containerPort: 8080}]}]}`)
	w.Make(&corev1.Service{}, `
metadata: {name: customer, namespace: dry-meshed}
spec: {selector: {app: customer}, ports: [{name: http, port: 80, targetPort: http}]}`)
	w.Make(&unstructured.Unstructured{}, `{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: customer, namespace: dry-meshed},
  spec: {hosts: [customer], http: [{route: [{destination: {host: customer}}]}]}}`)
	one := file(t, strings.ReplaceAll(strings.Replace(sandbox, "k7q2m9x4v1tz8", "dry-by-mesh", 1), "shop", "dry-meshed"))
	asked := func(want exit.Code, says string, args ...string) {
		t.Helper()
		if code, out, errs := ask(t, append(args, "-f", one)...); code != want || !strings.Contains(out, says) {
			t.Errorf("exit code %d, without %q:\n%s%s", code, says, out, errs)
		}
	}
	asked(exit.OK, "update VirtualService dry-meshed/customer", args...)
	asked(exit.OK, "SidecarsReady is True (RoutedByMesh): VirtualServices", args...)
	asked(exit.InTheWay, "SidecarAbsent", shop(t, "dry-without-mesh", "{}")...)
	asked(exit.InTheWay, "No HTTPRoute or GRPCRoute refers to Service dry-meshed/customer", shop(t, "dry-by-gateway", "routing: {gatewayAPI: {enabled: true}}")...)
	unread := shop(t, "dry-mesh-unread", "")
	asked(exit.InTheWay, "neither Istio nor the Gateway API is on", unread...)
	w.Make(&crdv1.IstioRoute{}, `{metadata: {name: dry-in-use}, spec: {routingKey: in-use, managed: {baseline: {workloadID: u, kind: Deployment, namespace: meshed, name: other},
  namespace: meshed, targetService: other, mappings: [], sandboxedWorkload: {kind: ForkedWorkload, namespace: meshed, name: f}}}}`)
	asked(exit.OK, "Istio alone is on, since there are IstioRoutes", unread...)
}
