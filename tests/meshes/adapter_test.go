package meshes

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/strays"
)

// The routing keys of the two sandboxes.
const (
	keyOfCustomer = "k7q2m9x4v1tz8"
	keyOfFrontend = "f3n8w5c2b6yd1"
)

// owned is what the owner has in his file: a VirtualService for the mesh, and one for the mesh
// and a gateway.
func owned(timeout string) string {
	return `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  selector: {istio: edge}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [shop.test]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: customer, namespace: shop}
spec:
  hosts: [customer]
  http:
  - {name: api, match: [{uri: {prefix: /api}}], timeout: ` + timeout + `, route: [{destination: {host: customer}}]}
  - {name: rest, timeout: ` + timeout + `, route: [{destination: {host: customer}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: frontend, namespace: shop}
spec:
  hosts: [shop.test, frontend.shop.svc.cluster.local]
  gateways: [edge, mesh]
  http:
  - {name: all, timeout: ` + timeout + `, route: [{destination: {host: frontend.shop.svc.cluster.local, port: {number: 8081}}}]}
`
}

// with returns the chains where these baselines are forked for their keys.
func with(forks ...string) strays.Chains {
	out := strays.Chains{}
	for key, baseline := range map[string]string{"": "", keyOfCustomer: "customer", keyOfFrontend: "frontend"} {
		chain := "frontend > customer > driver"
		for _, f := range forks {
			if f == baseline {
				chain = strings.Replace(chain, f, "fork of "+f, 1)
			}
		}
		out[key] = chain
	}
	return out
}

// TestNoRequestStrays goes the whole way: sandboxes come and go, and an owner applies his file
// in all ways, while requests go through a gateway and the mesh.
func TestNoRequestStrays(t *testing.T) {
	s := openShop(t, manager.Config{Istio: istioadapter.Settings{Enabled: true}})
	s.kubectl(owned("60s"), "apply", "-f", "-")
	l := &strays.Load{TB: t}
	mesh, _ := s.ask(net.IPv4(127, 0, 0, 1), serviceHost("frontend"), Port, grpcPort)
	gateway, _ := s.ask(gatewayIP, "shop.test", 80, 80)
	for _, key := range []string{"", keyOfCustomer, keyOfFrontend} {
		l.Probes = append(l.Probes, &strays.Probe{Way: "mesh", Key: key, Ask: mesh}, &strays.Probe{Way: "gateway", Key: key, Ask: gateway})
	}
	l.Awaits(with())
	background.Run(t, l.Run)
	none, both := with(), with("customer", "frontend")
	var ofCustomer, ofFrontend *crdv1.SignadotSandbox
	one := with("customer")
	l.During(strays.Phase{What: "a sandbox of customer comes", Before: none, After: one, Starts: keyOfCustomer}, func() { ofCustomer = s.sandbox(keyOfCustomer, "customer") }).None(t)
	l.During(strays.Phase{What: "a sandbox of frontend comes", Before: one, After: both, Starts: keyOfFrontend}, func() { ofFrontend = s.sandbox(keyOfFrontend, "frontend") }).None(t)
	applied := func(how string, seconds int) (*strays.Found, int) {
		t.Helper()
		gaps := s.gaps()
		what := "kubectl " + how
		if s.relay.isAway() {
			what += ", our webhook away"
		}
		args := append(strings.Fields(how), "-f", "-")
		found := l.During(strays.Phase{What: what, Before: both, After: both}, func() { s.kubectl(owned(fmt.Sprintf("%ds", seconds)), args...) })
		return found, gaps()
	}
	const client, force, server = "apply", "apply --server-side --force-conflicts", "apply --server-side"
	for i, how := range []string{client, client, force, force, server} {
		found, gaps := applied(how, 60+i/2)
		found.None(t)
		if gaps > 0 {
			t.Errorf("kubectl %s: VirtualServices were %d times without our routes", how, gaps)
		}
	}
	s.relay.set(true)
	for i, how := range []string{client, force, server} {
		found, gaps := applied(how, 70+i)
		t.Logf("%d versions without our routes; requests of one key strayed for %s at most", gaps, found.Longest().Round(time.Millisecond))
		found.ToBaseline(t, none)
		if gaps == 0 {
			t.Error("the webhook was not away")
		}
	}
	s.relay.set(false)
	l.During(strays.Phase{What: "the sandbox of frontend goes", Before: both, After: one}, func() { s.Remove(ofFrontend); s.Gone(ofFrontend) }).None(t)
	l.During(strays.Phase{What: "the sandbox of customer goes", Before: one, After: none}, func() { s.Remove(ofCustomer); s.Gone(ofCustomer) }).None(t)
}
