package meshes

import (
	"fmt"
	"net"
	"strings"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/strays"
)

// ownedRoutes is what the owner has in his file where he routes by the Gateway API: routes of both
// kinds, of two Services and of a Gateway.
func ownedRoutes(version int) string {
	var out strings.Builder
	for _, kind := range []struct {
		name, match, host string
		port              int
	}{
		{"HTTPRoute", "path: {type: PathPrefix, value: /api}", "shop.test", Port},
		{"GRPCRoute", "method: {service: grpc.testing.TestService}", "calls.test", grpcPort},
	} {
		for name, route := range map[string]struct{ service, parent string }{
			"customer": {"customer", fmt.Sprintf(`parentRefs: [{group: "", kind: Service, name: customer, port: %d}]`, kind.port)},
			"frontend": {"frontend", fmt.Sprintf(`parentRefs: [{group: "", kind: Service, name: frontend, port: %d}]`, kind.port)},
			"edge":     {"frontend", fmt.Sprintf("parentRefs: [{name: %s}]\n  hostnames: [%s]", gatewayName(0), kind.host)},
		} {
			to := fmt.Sprintf("backendRefs: [{name: %s, port: %d}], filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: Version, value: v%d}]}}]",
				route.service, kind.port, version)
			// istiod keeps one of two routes that have a name in common.
			fmt.Fprintf(&out, `
---
apiVersion: gateway.networking.k8s.io/v1
kind: %s
metadata: {name: %s-%s, namespace: shop}
spec:
  %s
  rules:
  - {matches: [{%s}], %s}
  - {%s}
`, kind.name, strings.ToLower(kind.name), name, route.parent, kind.match, to, to)
		}
	}
	return out.String()
}

// TestNoRequestStraysBesideDerivedRoutes goes the whole way with routes of the Gateway API:
// sandboxes come and go, and an owner changes his, while requests go through the mesh and through
// a gateway, by HTTPRoutes and by GRPCRoutes.
func TestNoRequestStraysBesideDerivedRoutes(t *testing.T) {
	s := openShop(t, manager.Config{GatewayAPI: gatewayadapter.Settings{Enabled: true, Istio: true}})
	edge := gateways("istio", 1)[0]
	edge.Namespace = shopName
	s.Create(addressed(edge)...)
	s.Must(gatewayClient(s.World).Create(s.Context(), edge))
	meshGet, meshCall := s.ask(net.IPv4(127, 0, 0, 1), serviceHost("frontend"), Port, grpcPort)
	edgeGet, _ := s.ask(gatewayIP, "shop.test", firstPort, firstPort)
	_, edgeCall := s.ask(gatewayIP, "calls.test", firstPort, firstPort)
	t.Run("HTTPRoute", func(t *testing.T) { s.noneStrays(t, meshGet, edgeGet) })
	t.Run("GRPCRoute", func(t *testing.T) { s.noneStrays(t, meshCall, edgeCall) })
}

// noneStrays sends requests by both ways while sandboxes come, the owner applies, and they go.
func (s *shop) noneStrays(t *testing.T, mesh, gateway strays.Ask) {
	s.kubectl(ownedRoutes(0), "apply", "-f", "-")
	l := &strays.Load{TB: t, PerSecond: 2 * strays.PerSecond}
	for _, key := range []string{"", keyOfCustomer, keyOfFrontend} {
		l.Probes = append(l.Probes, &strays.Probe{Way: "mesh", Key: key, Ask: mesh}, &strays.Probe{Way: "gateway", Key: key, Ask: gateway})
	}
	l.Awaits(with())
	background.Run(t, l.Run)
	none, one, both := with(), with("customer"), with("customer", "frontend")
	var ofCustomer, ofFrontend *crdv1.SignadotSandbox
	l.During(strays.Phase{What: "a sandbox of customer comes", Before: none, After: one, Starts: keyOfCustomer}, func() { ofCustomer = s.sandbox(keyOfCustomer, "customer") }).None(t)
	l.During(strays.Phase{What: "a sandbox of frontend comes", Before: one, After: both, Starts: keyOfFrontend}, func() { ofFrontend = s.sandbox(keyOfFrontend, "frontend") }).None(t)
	for version := 1; version <= 2; version++ {
		l.During(strays.Phase{What: "the owner changes his routes", Before: both, After: both}, func() { s.kubectl(ownedRoutes(version), "apply", "-f", "-") }).None(t)
	}
	l.During(strays.Phase{What: "the sandbox of frontend goes", Before: both, After: one}, func() { s.Remove(ofFrontend); s.Gone(ofFrontend) }).None(t)
	l.During(strays.Phase{What: "the sandbox of customer goes", Before: one, After: none}, func() { s.Remove(ofCustomer); s.Gone(ofCustomer) }).None(t)
}
