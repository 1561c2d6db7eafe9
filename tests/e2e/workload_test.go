package e2e

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tools/traffic"
)

// ledgerManifest is a workload as real clusters have them, in a namespace of its own,
// NAMESPACE.
//
//go:embed testdata/ledger.yaml
var ledgerManifest string

// ledger makes it in a namespace, which goes when the test ends.
func (w *world) ledger(namespace string) {
	w.t.Helper()
	w.kubectl(strings.ReplaceAll(ledgerManifest, "NAMESPACE", namespace), "apply", "-f", "-")
	w.removeAfter("namespace", namespace)
	w.kubectl("", "rollout", "status", "deployment/ledger", "-n", namespace, "--timeout=120s")
}

// ledgerSandbox forks it, with another value of a variable in both containers.
func ledgerSandbox(name, namespace string) string {
	return fmt.Sprintf(`{"apiVersion":"signadot.com/v1","kind":"SignadotSandbox","metadata":{"name":%[1]q},
"spec":{"id":%[1]q,"name":%[1]q,"customization":{"patches":[{
  "target":{"apiVersion":"apps/v1","kind":"Deployment","namespace":%[2]q,"name":"ledger"},
  "strategic":{"spec":{"template":{"spec":{"containers":[
    {"name":"ledger","env":[{"name":"VERSION","value":"fork"}]},
    {"name":"audit","env":[{"name":"VERSION","value":"fork"}]}]}}}}}]}}}`, name, namespace)
}

// told is the answer of a teller.
type told struct {
	Sandbox, Version, Container, Port string
	Files                             map[string]string
}

// teller asks a teller at host:port; who answered last is left in answer.
func teller(address, sandbox string, answer *told) traffic.Sender {
	return traffic.Sender{URL: "http://" + address, Client: traffic.NewClient(), Judge: func(body []byte) (traffic.Side, error) {
		*answer = told{}
		if err := json.Unmarshal(body, answer); err != nil {
			return "", fmt.Errorf("%w in %q", err, body)
		}
		switch {
		case answer.Version == "fork" && answer.Sandbox == sandbox:
			return traffic.Fork, nil
		case answer.Version == "baseline" && answer.Sandbox == "":
			return traffic.Baseline, nil
		}
		return "", fmt.Errorf("neither side says %s", body)
	}}
}

// ledgerAddresses returns where the Services of the ledger are reached, by
// service:port; the headless one by the address of the pod.
func (w *world) ledgerAddresses(namespace string) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, s := range []string{"ledger:80", "ledger-both:9000", "ledger-both:7000"} {
		name, port, _ := strings.Cut(s, ":")
		ip := w.kubectl("", "get", "service", "-n", namespace, name, "-o", "jsonpath={.spec.clusterIP}")
		out[s] = net.JoinHostPort(ip, port)
	}
	pod := w.kubectl("", "get", "pods", "-n", namespace, "-l", "app=ledger", "-o", "jsonpath={.items[0].status.podIP}")
	out["ledger-pods:8080"] = net.JoinHostPort(pod, "8080")
	return out
}

func TestAForkOfAWorkloadWithManyPartsServesOnAllPorts(t *testing.T) {
	const sandbox, namespace = "e2e-ledger", "e2e-ledger"
	w := newWorld(t)
	w.ledger(namespace)
	w.kubectl(ledgerSandbox(sandbox, namespace), "apply", "-f", "-")
	w.removeAfter("signadotsandbox", sandbox)
	w.kubectl("", "wait", "signadotsandbox/"+sandbox, "--for=condition=Ready", "--timeout=120s")

	files := map[string]string{"/etc/ledger/currency": "florin", "/etc/secret/token": "not-so-secret"}
	want := map[string]told{
		"ledger:80":        {Container: "ledger", Port: "8080", Files: files},
		"ledger-pods:8080": {Container: "ledger", Port: "8080", Files: files},
		"ledger-both:9000": {Container: "ledger", Port: "9090", Files: files},
		"ledger-both:7000": {Container: "audit", Port: "7070", Files: map[string]string{}},
	}
	for service, address := range w.ledgerAddresses(namespace) {
		t.Run(service, func(t *testing.T) {
			for key, side := range map[string]traffic.Side{"": traffic.Baseline, sandbox: traffic.Fork, "nobodys": traffic.Baseline} {
				var answer told
				asked := teller(address, sandbox, &answer)
				// Ready was said: nothing is waited for here.
				if got, err := asked.Send(t.Context(), key); err != nil || got != side {
					t.Errorf("key %q is served by %q, not by the %s: %v", key, got, side, err)
				}
				if answer.Container != want[service].Container || answer.Port != want[service].Port ||
					fmt.Sprint(answer.Files) != fmt.Sprint(want[service].Files) {
					t.Errorf("key %q: %+v answers, want %+v", key, answer, want[service])
				}
			}
		})
	}
	w.eachBaselineServiceHasOneOfTheFork(namespace)
}

// eachBaselineServiceHasOneOfTheFork checks that there are as many Services of
// forks as of the baseline, each for another one.
func (w *world) eachBaselineServiceHasOneOfTheFork(namespace string) {
	w.t.Helper()
	w.eventually("each Service of the baseline has one of the fork", 10*time.Second, func() error {
		out := w.kubectl("", "get", "services", "-n", namespace, "-l", "signadot.com/forked-workload", "-o",
			`jsonpath={range .items[*]}{.metadata.annotations.signadot\.com/baseline-service}{"\n"}{end}`)
		stand := map[string]int{}
		for _, name := range strings.Fields(out) {
			stand[name]++
		}
		for _, name := range []string{"ledger", "ledger-pods", "ledger-both"} {
			if n := stand[namespace+"/"+name]; n != 1 {
				return fmt.Errorf("%d Services stand for %s, of %v", n, name, stand)
			}
		}
		return nil
	})
}
