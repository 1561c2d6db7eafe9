package node_test

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tests/background"
	"switchyard.dev/tests/meshes"
	"switchyard.dev/tests/meshes/node"
	"switchyard.dev/tests/strays"
	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/istio"
)

const (
	root      = "../../.."
	namespace = "mesh-shop"
	// host is that of the gateway.
	host = "shop.test"
)

func TestMain(m *testing.M) {
	if demo.Inside() {
		os.Exit(m.Run())
	}
	prepare := func(ctx context.Context, c demo.Config) error { return node.Prepare(ctx, c) }
	code, err := demo.RunInsideOf(context.Background(), root, prepare)
	if err != nil {
		fmt.Fprintln(os.Stderr, "meshes:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// shopManifest is a chain of Services in the mesh.
//
//go:embed testdata/shop.yaml
var shopManifest string

// owned is what the owner has in his file. Nothing routes to client, by which requests enter the
// mesh that come by no gateway.
func owned(timeout string) string {
	return `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: mesh-shop}
spec:
  selector: {istio: edge}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [shop.test]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: frontend, namespace: mesh-shop}
spec:
  hosts: [shop.test, frontend.mesh-shop.svc.cluster.local]
  gateways: [edge, mesh]
  http:
  - {name: all, timeout: ` + timeout + `, route: [{destination: {host: frontend.mesh-shop.svc.cluster.local}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: customer, namespace: mesh-shop}
spec:
  hosts: [customer]
  http:
  - {name: api, match: [{uri: {prefix: /api}}], timeout: ` + timeout + `, route: [{destination: {host: customer}}]}
  - {name: rest, timeout: ` + timeout + `, route: [{destination: {host: customer}}]}
`
}

// shop is the chain of Services in the cluster.
type shop struct{ *testing.T }

// kubectl runs kubectl and fails the test when it does.
func (s shop) kubectl(stdin string, args ...string) string {
	s.Helper()
	out, err := demo.Kubectl(s.Context(), stdin, args...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// removeAfter deletes an object when the test ends, after those that were made later.
func (s shop) removeAfter(kind, name string) {
	s.after("", "delete", kind, name, "--ignore-not-found", "--timeout=100s")
}

// after runs kubectl when the test ends.
func (s shop) after(stdin string, args ...string) {
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if _, err := demo.Kubectl(ctx, stdin, args...); err != nil {
			s.Error(err)
		}
	})
}

// open installs everything.
func open(t *testing.T) shop {
	s := shop{t}
	if err := node.Install(t.Context(), root, "istio.enabled=true"); err != nil {
		t.Fatal(err)
	}
	s.kubectl(shopManifest, "apply", "-f", "-")
	s.removeAfter("namespace", namespace)
	mesh, err := istio.FindNode(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Helm(t.Context(), namespace, "", "edge", filepath.Join(mesh.Charts, "gateway"), "--set=service.type=ClusterIP", "--set=imagePullPolicy=IfNotPresent"); err != nil {
		t.Fatal(err)
	}
	s.kubectl("", "wait", "deployments", "--all", "-n", namespace, "--for=condition=Available", "--timeout=180s")
	s.kubectl(owned("60s"), "apply", "-f", "-")
	return s
}

// sandbox makes a sandbox that forks a workload, whose routing key is its name, and waits until
// it is ready.
func (s shop) sandbox(key, workload string) {
	s.Helper()
	s.forks(key, namespace, "{}", workload)
	s.kubectl("", "wait", "signadotsandbox/"+key, "--for=condition=Ready", "--timeout=120s")
}

// forks makes a sandbox that forks workloads of a namespace. Its routing key is its name, and the
// pods of the forks get these labels, in JSON.
func (s shop) forks(key, namespace, labels string, workloads ...string) {
	s.Helper()
	var patches []string
	for _, workload := range workloads {
		patches = append(patches, fmt.Sprintf(`{"target":{"apiVersion":"apps/v1","kind":"Deployment","namespace":%q,"name":%q},
  "strategic":{"spec":{"template":{"metadata":{"labels":%s},"spec":{"containers":[{"name":"teller","env":[{"name":"VERSION","value":"fork"}]}]}}}}}`,
			namespace, workload, labels))
	}
	s.kubectl(fmt.Sprintf(`{"apiVersion":"signadot.com/v1","kind":"SignadotSandbox","metadata":{"name":%[1]q},
"spec":{"id":%[1]q,"name":%[1]q,"customization":{"patches":[%[2]s]}}}`, key, strings.Join(patches, ",")), "apply", "-f", "-")
	s.removeAfter("signadotsandbox", key)
}

// to returns a client whose connections go to a Service.
func (s shop) to(service string) *http.Client {
	s.Helper()
	return s.toIn(namespace, service)
}

func (s shop) toIn(namespace, service string) *http.Client {
	s.Helper()
	c := meshes.Client(net.ParseIP(s.kubectl("", "get", "service", service, "-n", namespace, "-o", "jsonpath={.spec.clusterIP}")))
	c.Timeout = time.Minute // What is measured is who answers, not when.
	return c
}

// The routing keys of the two sandboxes.
const (
	keyOfCustomer = "k7q2m9x4v1tz8"
	keyOfFrontend = "f3n8w5c2b6yd1"
)

// with returns the chains where these workloads are forked for their keys.
func with(forks ...string) strays.Chains {
	out := strays.Chains{}
	for key, forked := range map[string]string{"": "", "nobodys": "", keyOfCustomer: "customer", keyOfFrontend: "frontend"} {
		out[key] = "frontend > customer > driver"
		for _, f := range forks {
			if f == forked {
				out[key] = strings.Replace(out[key], f, "fork of "+f, 1)
			}
		}
	}
	return out
}

// TestNoRequestStraysBetweenPods: sandboxes come and go, and an owner applies his file in all
// ways, while requests go through a gateway and from pod to pod.
func TestNoRequestStraysBetweenPods(t *testing.T) {
	s := open(t)
	none, one, both := with(), with("customer"), with("customer", "frontend")
	l := &strays.Load{TB: t}
	edge, client := s.to("edge"), s.to("client")
	for key := range none {
		l.Probes = append(l.Probes,
			&strays.Probe{Way: "mesh", Key: key, Ask: strays.Get(client, "http://client:8080/chain")},
			&strays.Probe{Way: "gateway", Key: key, Ask: strays.Get(edge, "http://"+host+"/chain")})
	}
	l.Awaits(none)
	background.Run(t, l.Run)
	l.During(strays.Phase{What: "a sandbox of customer comes", Before: none, After: one, Starts: keyOfCustomer}, func() { s.sandbox(keyOfCustomer, "customer") }).None(t)
	l.During(strays.Phase{What: "a sandbox of frontend comes", Before: one, After: both, Starts: keyOfFrontend}, func() { s.sandbox(keyOfFrontend, "frontend") }).None(t)
	for i, how := range []string{"apply", "apply", "apply --server-side --force-conflicts", "apply --server-side --force-conflicts", "apply --server-side", "replace"} {
		args := append(strings.Fields(how), "-f", "-")
		l.During(strays.Phase{What: "kubectl " + how, Before: both, After: both}, func() { s.kubectl(owned(fmt.Sprintf("%ds", 60+i/2)), args...) }).None(t)
	}
	remove := func(key string) func() {
		return func() { s.kubectl("", "delete", "signadotsandbox", key, "--timeout=100s") }
	}
	l.During(strays.Phase{What: "the sandbox of frontend goes", Before: both, After: one}, remove(keyOfFrontend)).None(t)
	l.During(strays.Phase{What: "the sandbox of customer goes", Before: one, After: none}, remove(keyOfCustomer)).None(t)
	if left := s.kubectl("", "get", "virtualservices", "-n", namespace, "-o", "yaml"); strings.Contains(left, "signadot-operator-") {
		t.Errorf("routes of ours are left:\n%s", left)
	}
}
