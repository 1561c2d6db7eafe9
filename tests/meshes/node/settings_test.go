package node_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tests/strays"
	"switchyard.dev/tools/wait"
)

// chain is the answer of the baselines, and ofFork that of the sandbox of customer.
const (
	chain  = "frontend > customer > driver"
	ofFork = "frontend > fork of customer > driver"
)

// TestSettingsOfTheMesh applies settings of Istio to the baseline of a sandbox: requests with the key
// are treated in the same way, or the sandbox reports the setting and the remedy.
func TestSettingsOfTheMesh(t *testing.T) {
	open(t)
	for _, of := range []struct {
		name  string
		check func(shop)
	}{
		{"a DestinationRule that turns off TLS for the host", shop.destinationRule},
		{"an AuthorizationPolicy that allows by label", shop.allowByLabel},
		{"an AuthorizationPolicy that denies by label", shop.denyByLabel},
		{"a Sidecar that hides the VirtualService", shop.hiddenBySidecar},
		{"pods that opt in or out of the mesh by their label", shop.optIn},
	} {
		t.Run(of.name, func(t *testing.T) { of.check(shop{t}) })
	}
}

// destinationRule has a workload without a proxy, for which a rule of its host turns off TLS.
func (s shop) destinationRule() {
	s.apply(`
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: all, namespace: mesh-shop}
spec: {host: "*.mesh-shop.svc.cluster.local", exportTo: ["."], trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: customer, namespace: mesh-shop}
spec: {host: customer.mesh-shop.svc.cluster.local, exportTo: ["."], trafficPolicy: {tls: {mode: DISABLE}}}
`)
	s.after("", "rollout", "status", "deployment/customer", "-n", namespace, "--timeout=100s")
	s.after("", "patch", "deployment", "customer", "-n", namespace, "--type=merge", "-p", injected("null"))
	s.kubectl("", "patch", "deployment", "customer", "-n", namespace, "--type=merge", "-p", injected(`"false"`))
	s.kubectl("", "rollout", "status", "deployment/customer", "-n", namespace, "--timeout=180s")
	s.answer(namespace, "", chain)
	s.sandbox(keyOfCustomer, "customer")
	s.answer(namespace, keyOfCustomer, ofFork)
	s.answer(namespace, "", chain)
}

// injected returns a patch of a Deployment that sets the annotation of injection, in JSON.
func injected(value string) string {
	return `{"spec":{"template":{"metadata":{"annotations":{"sidecar.istio.io/inject":` + value + `}}}}}`
}

// allowed are policies by which only these workloads are called, and pods with a label.
const allowed = `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: none, namespace: mesh-shop}
spec: {}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: client, namespace: mesh-shop}
spec: {selector: {matchLabels: {app: client}}, rules: [{}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: frontend, namespace: mesh-shop}
spec: {selector: {matchLabels: {app: frontend}}, rules: [{}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: customer, namespace: mesh-shop}
spec: {selector: {matchLabels: {app: customer}}, rules: [{}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: driver, namespace: mesh-shop}
spec: {selector: {matchLabels: {app: driver}}, rules: [{}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: part-of-shop, namespace: mesh-shop}
spec: {selector: {matchLabels: {part-of: shop}}, rules: [{}]}
`

func (s shop) allowByLabel() {
	s.apply(allowed)
	s.answer(namespace, "", chain)
	s.sandbox(keyOfCustomer, "customer")
	s.answer(namespace, keyOfCustomer, "status 403")
	s.reports(keyOfCustomer, "PoliciesApply", "False", "AuthorizationPolicy mesh-shop/customer", "label app", "Copy the policy for pods with label signadot.com/forked-workload=")
	s.forks(keyOfFrontend, namespace, `{"part-of":"shop"}`, "customer")
	s.answer(namespace, keyOfFrontend, ofFork)
	s.answer(namespace, "", chain)
}

func (s shop) denyByLabel() {
	closed := func(name, label string) string {
		return `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: ` + name + `, namespace: mesh-shop}
spec: {selector: {matchLabels: {` + label + `}}, action: DENY, rules: [{to: [{operation: {paths: [/chain]}}]}]}
`
	}
	s.apply(closed("closed", "app: customer"))
	s.answer(namespace, "", "status 403")
	s.sandbox(keyOfCustomer, "customer")
	s.reports(keyOfCustomer, "PoliciesApply", "False", "AuthorizationPolicy mesh-shop/closed", "label app")
	s.answer(namespace, keyOfCustomer, ofFork)
	s.answer(namespace, "", "status 403")
	// What the message advises.
	label := s.kubectl("", "get", "pods", "-n", namespace, "-l", "signadot.com/forked-workload", "-o", `jsonpath={.items[0].metadata.labels.signadot\.com/forked-workload}`)
	s.apply(closed("closed-for-fork", "signadot.com/forked-workload: "+label))
	s.answer(namespace, keyOfCustomer, "status 403")
	wait.Eventually(s, 2*time.Minute, "the condition is removed", func() error {
		if left := s.kubectl("", "get", "signadotsandbox", keyOfCustomer, "-o", `jsonpath={.status.conditions[?(@.type=="PoliciesApply")].message}`); left != "" {
			return errors.New(left)
		}
		return nil
	})
}

// hiddenBySidecar has the VirtualService in a namespace that the Sidecar does not list, at last.
func (s shop) hiddenBySidecar() {
	sidecar := func(more string) string {
		return `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: mesh-shop}
spec:
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
  egress:
  - hosts: [./frontend.mesh-shop.svc.cluster.local, ./customer.mesh-shop.svc.cluster.local, ./driver.mesh-shop.svc.cluster.local` + more + `]
`
	}
	s.apply(sidecar(""))
	s.sandbox(keyOfCustomer, "customer")
	s.answer(namespace, keyOfCustomer, ofFork)
	s.answer(namespace, "", chain)
	s.kubectl("", "delete", "virtualservice", "customer", "-n", namespace)
	s.after(owned("60s"), "apply", "-f", "-")
	s.apply(`
apiVersion: v1
kind: Namespace
metadata: {name: mesh-routes}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: customer, namespace: mesh-routes}
spec:
  hosts: [customer.mesh-shop.svc.cluster.local]
  http: [{name: rest, route: [{destination: {host: customer.mesh-shop.svc.cluster.local}}]}]
`)
	s.answer(namespace, keyOfCustomer, chain)
	s.reports(keyOfCustomer, "Ready", "False", "Sidecar mesh-shop/default does not list VirtualService mesh-routes/customer", "Add mesh-routes/customer.mesh-shop.svc.cluster.local to spec.egress[].hosts")
	s.kubectl(sidecar(", mesh-routes/customer.mesh-shop.svc.cluster.local"), "apply", "-f", "-")
	s.answer(namespace, keyOfCustomer, ofFork)
	s.reports(keyOfCustomer, "Ready", "True")
}

// template finds the labels of the pods in the manifest of the shop.
var template = regexp.MustCompile(`(template:\n\s+metadata: \{labels: \{app: \w+)`)

// optIn has pods that opt in to the mesh in a namespace that is not injected, and then one that opts
// out in a namespace that is.
func (s shop) optIn() {
	const other = "mesh-optin"
	manifest := strings.NewReplacer(namespace, other, "istio-injection: enabled", "of: test").Replace(shopManifest)
	s.apply(template.ReplaceAllString(manifest, `$1, sidecar.istio.io/inject: "true"`))
	s.apply(strings.ReplaceAll(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: customer, namespace: NS}
spec: {hosts: [customer], http: [{route: [{destination: {host: customer}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: driver, namespace: NS}
spec: {hosts: [driver], http: [{route: [{destination: {host: driver}}]}]}
`, "NS", other))
	s.kubectl("", "wait", "deployments", "--all", "-n", other, "--for=condition=Available", "--timeout=180s")
	s.answer(other, "", chain)
	const forked = "frontend > fork of customer > fork of driver"
	s.forks(keyOfCustomer, other, "{}", "customer", "driver")
	s.reports(keyOfCustomer, "Ready", "True")
	s.answer(other, keyOfCustomer, forked)
	s.answer(other, "", chain)
	if n := s.proxies(other); n != 2 {
		s.Errorf("%d pods of forks have a proxy", n)
	}
	s.kubectl("", "delete", "signadotsandbox", keyOfCustomer, "--timeout=100s")

	s.kubectl("", "label", "namespace", other, "istio-injection=enabled")
	s.kubectl("", "patch", "deployment", "driver", "-n", other, "--type=merge", "-p", `{"spec":{"template":{"metadata":{"labels":{"sidecar.istio.io/inject":"false"}}}}}`)
	s.kubectl("", "rollout", "status", "deployment/driver", "-n", other, "--timeout=180s")
	s.forks(keyOfCustomer, other, "{}", "customer", "driver")
	s.reports(keyOfCustomer, "Ready", "True")
	s.answer(other, keyOfCustomer, forked)
	if n := s.proxies(other); n != 1 {
		s.Errorf("%d pods of forks have a proxy, though driver has opted out", n)
	}
}

// apply applies objects, and deletes them when the test ends.
func (s shop) apply(objects string) {
	s.Helper()
	s.kubectl(objects, "apply", "-f", "-")
	s.after(objects, "delete", "--ignore-not-found", "--timeout=100s", "-f", "-")
}

// answer waits until ten requests in a row with a routing key are answered by this chain of workloads,
// or fail with this text.
func (s shop) answer(namespace, key, want string) {
	s.Helper()
	ask, baggage := strays.Get(s.toIn(namespace, "client"), "http://client:8080/chain"), ""
	if key != "" {
		baggage = "sd-routing-key=" + key
	}
	wait.Eventually(s, 2*time.Minute, fmt.Sprintf("requests with key %q get %q", key, want), func() error {
		for range 10 {
			got, err := ask(s.Context(), baggage)
			if err == nil && got != want {
				return fmt.Errorf("the answer is %q", got)
			}
			if err != nil && !strings.Contains(err.Error(), want) {
				return err
			}
		}
		return nil
	})
}

// reports waits until a condition of a sandbox has a status and a message with these texts.
func (s shop) reports(sandbox, condition, status string, texts ...string) {
	s.Helper()
	path := fmt.Sprintf(`jsonpath={.status.conditions[?(@.type==%q)]['status','message']}`, condition)
	got := ""
	wait.Eventually(s, 2*time.Minute, "condition "+condition+" of sandbox "+sandbox, func() error {
		got = s.kubectl("", "get", "signadotsandbox", sandbox, "-o", path)
		if !strings.HasPrefix(got, status+" ") {
			return fmt.Errorf("it is not %s: %s", status, got)
		}
		for _, text := range texts {
			if !strings.Contains(got, text) {
				return fmt.Errorf("it has no %q: %s", text, got)
			}
		}
		return nil
	})
	s.Logf("%s: %s", condition, got)
}

// proxies counts the pods of forks in a namespace that have a proxy of Istio.
func (s shop) proxies(namespace string) int {
	s.Helper()
	pods := s.kubectl("", "get", "pods", "-n", namespace, "-l", "signadot.com/forked-workload", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.spec.containers[*].name} {.spec.initContainers[*].name}{"\n"}{end}`)
	return strings.Count(pods, " istio-proxy")
}
