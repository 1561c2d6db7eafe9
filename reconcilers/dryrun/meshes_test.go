package dryrun_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"switchyard.dev/reconcilers/dryrun"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/istioadapter"
)

// meshed makes a Deployment with a Service, and no sidecars.
func (c *cluster) meshed(name string) {
	c.Helper()
	c.Make(&appsv1.Deployment{}, `
metadata: {name: `+name+`, namespace: `+c.ns+`, labels: {app: `+name+`}}
spec:
  selector: {matchLabels: {app: `+name+`}}
  template:
    metadata: {labels: {app: `+name+`}}
    spec: {containers: [{name: main, image: "`+name+`:1", ports: [{name: http, containerPort: 8080}]}]}`)
	c.Make(&corev1.Service{}, `
metadata: {name: `+name+`, namespace: `+c.ns+`}
spec: {selector: {app: `+name+`}, ports: [{name: http, port: 80, targetPort: http}]}`)
}

func (c *cluster) virtualService(name string) {
	c.Helper()
	c.Make(&unstructured.Unstructured{}, `{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: `+name+`, namespace: `+c.ns+`},
  spec: {hosts: [`+name+`], http: [{name: all, route: [{destination: {host: `+name+`}}]}]}}`)
}

func (c *cluster) httpRoute(name string) {
	c.Helper()
	c.Make(&unstructured.Unstructured{}, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: `+name+`, namespace: `+c.ns+`},
  spec: {parentRefs: [{group: "", kind: Service, name: `+name+`, port: 80}], rules: [{backendRefs: [{name: `+name+`, port: 80}]}]}}`)
}

// finds checks that there is a finding with the reason, the status and the parts in its message.
func finds(t *testing.T, p dryrun.Plan, reason, status string, parts ...string) {
	t.Helper()
	for _, f := range p.Findings {
		if f.Reason == reason && f.Status == status && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(f.Message, part) }) {
			return
		}
	}
	t.Errorf("no finding %s (%s) with %q in %+v", reason, status, parts, p.Findings)
}

func inTheWay(p dryrun.Plan) bool { return slices.ContainsFunc(p.Findings, dryrun.Finding.InTheWay) }

// TestMeshRoutedWorkloadNeedsNoSidecars tries sandboxes of workloads without sidecars while both meshes
// are on, and sees each plan come true.
func TestMeshRoutedWorkloadNeedsNoSidecars(t *testing.T) {
	c := started(t, "dry-mesh", func(m *manager.Config) {
		m.Istio, m.GatewayAPI = istioadapter.Settings{Enabled: true}, gatewayadapter.Settings{Enabled: true}
	})
	c.meshes = dryrun.Meshes{Istio: istioadapter.Settings{Enabled: true}, GatewayAPI: gatewayadapter.Settings{Enabled: true}}
	c.meshed("virtual")
	c.virtualService("virtual")
	c.meshed("routed")
	c.httpRoute("routed")
	c.meshed("bare")

	p := c.tried(c.sandbox("dry-virtual", "dry-virtual-key", "virtual"))
	c.expect(p, []string{
		"create Deployment", "create ForkedWorkload", "create GatewayAPIRoute", "create IstioRoute", "create RoutingConfig", "create Service",
		"create SignadotSandbox", "update VirtualService",
	}, []string{"ForkedWorkload SidecarsReady=True RoutedByMesh"})
	finds(t, p, dryrun.ReasonRoutedByMesh, "True", "VirtualServices route requests for Deployment dry-mesh/virtual")
	p = c.tried(c.sandbox("dry-routed", "dry-routed-key", "routed"))
	c.expect(p, []string{
		"create Deployment", "create ForkedWorkload", "create GatewayAPIRoute", "create HTTPRoute", "create IstioRoute", "create RoutingConfig", "create Service",
		"create SignadotSandbox",
	}, []string{"ForkedWorkload SidecarsReady=True RoutedByMesh"})
	finds(t, p, dryrun.ReasonRoutedByMesh, "True", "HTTPRoutes and GRPCRoutes route requests for Deployment dry-mesh/routed")
	p = c.tried(c.sandbox("dry-bare", "dry-bare-key", "bare"))
	finds(t, p, "SidecarAbsent", "False", "dry-mesh/bare")
	finds(t, p, "RoutingNotReady", "False", "No VirtualService routes HTTP to Service dry-mesh/bare", "metadata: {name: bare")
	if !inTheWay(p) {
		t.Error("nothing routes it, and no problem is reported")
	}
	// A second plan beside the routes of the other sandboxes has no changes.
	p, err := dryrun.Apply(t.Context(), c.config(), c.sandbox("dry-virtual", "dry-virtual-key", "virtual"))
	c.Must(err)
	c.expect(p, nil, []string{"ForkedWorkload SidecarsReady=True RoutedByMesh"})

	p = c.triedDeletion(c.sandbox("dry-virtual", "any"))
	c.expect(p, []string{
		"delete Deployment", "delete ForkedWorkload", "delete GatewayAPIRoute", "delete IstioRoute", "delete RoutingConfig", "delete Service",
		"delete SignadotSandbox", "update VirtualService",
	}, nil)
	p = c.triedDeletion(c.sandbox("dry-routed", "any"))
	c.expect(p, []string{
		"delete Deployment", "delete ForkedWorkload", "delete GatewayAPIRoute", "delete HTTPRoute", "delete IstioRoute", "delete RoutingConfig", "delete Service",
		"delete SignadotSandbox",
	}, nil)
}

// TestDestinationRulesOfForks tries a sandbox of a Service with DestinationRules, in its namespace and in
// another one.
func TestDestinationRulesOfForks(t *testing.T) {
	c := started(t, "dry-rules", func(m *manager.Config) { m.Istio = istioadapter.Settings{Enabled: true} })
	c.meshes = dryrun.Meshes{Istio: istioadapter.Settings{Enabled: true}}
	c.meshed("ruled")
	c.virtualService("ruled")
	c.Namespaces("dry-rules-client")
	for _, ns := range []string{c.ns, "dry-rules-client"} {
		c.Make(&unstructured.Unstructured{}, `{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: ruled, namespace: `+ns+`},
  spec: {host: ruled.`+c.ns+`.svc.cluster.local, trafficPolicy: {loadBalancer: {simple: RANDOM}}}}`)
	}
	p := c.tried(c.sandbox("dry-ruled", "dry-ruled-key", "ruled"))
	c.expect(p, []string{
		"create Deployment", "create DestinationRule", "create DestinationRule", "create ForkedWorkload", "create IstioRoute", "create RoutingConfig", "create Service",
		"create SignadotSandbox", "update VirtualService",
	}, []string{"ForkedWorkload SidecarsReady=True RoutedByMesh"})
	p = c.triedDeletion(c.sandbox("dry-ruled", "any"))
	c.expect(p, []string{
		"delete Deployment", "delete DestinationRule", "delete DestinationRule", "delete ForkedWorkload", "delete IstioRoute", "delete RoutingConfig", "delete Service",
		"delete SignadotSandbox", "update VirtualService",
	}, nil)
}

// TestMeshOfUnreadableObjectsIsUnknown uses a client without the right to list VirtualServices, then
// one without the right to list EnvoyFilters.
func TestMeshOfUnreadableObjectsIsUnknown(t *testing.T) {
	c := started(t, "dry-mesh-rights", func(*manager.Config) {})
	c.meshed("a")
	c.virtualService("a")
	c.grant("dry-meshless", "signadot.com", false, "*")
	c.grant("dry-meshless", "", false, "services", "pods", "namespaces")
	c.grant("dry-meshless", "apps", false, "deployments", "replicasets")
	c.grant("dry-meshless", "discovery.k8s.io", false, "endpointslices")
	c.grant("dry-meshless", "policy", false, "poddisruptionbudgets")
	config := c.config()
	config.Reader, config.Meshes = c.user("dry-meshless"), dryrun.Meshes{Istio: istioadapter.Settings{Enabled: true}}
	s := c.sandbox("dry-rights", "dry-rights-key", "a")
	p, err := dryrun.Apply(t.Context(), config, s)
	c.Must(err)
	if inTheWay(p) {
		t.Errorf("the unknown is reported as a problem: %+v", p.Findings)
	}
	unknown := strings.Join(p.Unknown, "\n")
	c.Says(unknown, "VirtualService.networking.istio.io may not be listed", "EnvoyFilter.networking.istio.io may not be listed")

	c.grant("dry-meshless", "networking.istio.io", false, "virtualservices")
	config.Reader = c.user("dry-meshless")
	p, err = dryrun.Apply(t.Context(), config, s)
	c.Must(err)
	finds(t, p, dryrun.ReasonRoutedByMesh, "True", "VirtualServices route requests")
	if unknown := strings.Join(p.Unknown, "\n"); strings.Contains(unknown, "VirtualService.") || !strings.Contains(unknown, "EnvoyFilter.") {
		t.Errorf("not known is %q", unknown)
	}
}
