package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tools/traffic"
)

// The end of a tunnel in the cluster, played by a pod that says who answers: the
// proxy that forwards to a workstation comes with a later version of the operator.
const tunnelEnd = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"tunnel-end","namespace":%[1]q,"labels":{"app":"tunnel-end"}},
"spec":{"automountServiceAccountToken":false,"containers":[{"name":"teller","image":"switchyard.dev/teller:dev","imagePullPolicy":"IfNotPresent",
  "args":[":31000"],"env":[{"name":"VERSION","value":"workstation"}],
  "readinessProbe":{"tcpSocket":{"port":31000},"periodSeconds":1},
  "securityContext":{"allowPrivilegeEscalation":false,"readOnlyRootFilesystem":true,"runAsNonRoot":true,"runAsUser":65532,
    "capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}}]}}`

const tunnelSandbox = `{"apiVersion":"signadot.com/v1","kind":"SignadotSandbox","metadata":{"name":%[1]q},
"spec":{"id":%[1]q,"name":%[1]q,"externalWorkloads":[{"name":"mine",
  "baseline":{"apiVersion":"apps/v1","kind":"Deployment","namespace":%[2]q,"name":"ledger"},
  "tunnel":{"baselineToLocals":[{"baselinePort":8080,"localAddress":"localhost:3000"}]}}]}}`

// tunnel writes how the tunnel of the sandbox's external workload is, as what keeps
// tunnels will.
func (w *world) tunnel(namespace, sandbox string, connected bool) {
	w.t.Helper()
	name := ""
	w.eventually("the external workload is made", 20*time.Second, func() error {
		name = w.kubectl("", "get", "signadotexternalworkloads", "-n", namespace, "-l", "signadot.com/sandbox="+sandbox, "-o", "jsonpath={.items[*].metadata.name}")
		if name == "" {
			return fmt.Errorf("there is none for sandbox %s", sandbox)
		}
		return nil
	})
	ip := w.kubectl("", "get", "pod", "tunnel-end", "-n", namespace, "-o", "jsonpath={.status.podIP}")
	now := time.Now().UTC().Format(time.RFC3339)
	status, err := json.Marshal(map[string]any{"status": map[string]any{"tunnel": map[string]any{
		"health": map[string]any{"connected": connected, "lastCheckTime": now, "lastConnectedTime": now},
		"info": map[string]any{"controlPort": 31999, "tunnelProxyPodName": "tunnel-end", "tunnelProxyPodIP": ip,
			"workloadPorts": []any{map[string]any{"baseline": 8080, "proxy": 31000}}},
	}}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.kubectl("", "patch", "signadotexternalworkload", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", string(status))
}

func TestRequestsReachAWorkloadOutsideOfTheClusterThroughItsTunnel(t *testing.T) {
	const sandbox, namespace = "e2e-tunnel", "e2e-tunnel"
	w := newWorld(t)
	w.ledger(namespace)
	w.kubectl(fmt.Sprintf(tunnelEnd, namespace), "apply", "-f", "-")
	w.kubectl("", "wait", "pod/tunnel-end", "-n", namespace, "--for=condition=Ready", "--timeout=60s")
	w.kubectl(fmt.Sprintf(tunnelSandbox, sandbox, namespace), "apply", "-f", "-")
	w.removeAfter("signadotsandbox", sandbox)
	w.tunnel(namespace, sandbox, true)
	w.kubectl("", "wait", "signadotsandbox/"+sandbox, "--for=condition=Ready", "--timeout=50s")

	at := w.ledgerAddresses(namespace)
	var answer told
	for _, c := range []struct {
		service, key, want string
	}{
		{"ledger:80", sandbox, "workstation"},
		{"ledger:80", "", "baseline"},
		{"ledger-pods:8080", sandbox, "workstation"},
		{"ledger-both:7000", sandbox, "baseline"}, // The sandbox does not list that port.
	} {
		asked := traffic.Sender{URL: "http://" + at[c.service], Client: traffic.NewClient(), Judge: func(body []byte) (traffic.Side, error) {
			return "", json.Unmarshal(body, &answer)
		}}
		answer = told{}
		if _, err := asked.Send(t.Context(), c.key); err != nil || answer.Version != c.want {
			t.Errorf("%s with key %q is served by %q, not by the %s: %v", c.service, c.key, answer.Version, c.want, err)
		}
	}

	// The workstation is away: its requests fail, and do not reach the baseline.
	w.tunnel(namespace, sandbox, false)
	w.eventually("requests fail while the tunnel is down", 20*time.Second, func() error {
		side, err := teller(at["ledger:80"], sandbox, &answer).Send(t.Context(), sandbox)
		if err == nil || !strings.Contains(err.Error(), "status 503") {
			return fmt.Errorf("%q answers: %v", side, err)
		}
		return nil
	})
	w.namespaceGoesWithoutTheManager(namespace)
}

// namespaceGoesWithoutTheManager deletes a namespace with members of sandboxes in it
// while no manager runs.
func (w *world) namespaceGoesWithoutTheManager(namespace string) {
	w.t.Helper()
	manager := w.kubectl("", "get", "deployments", "-n", "signadot", "-l", "control-plane=controller-manager", "-o", "name")
	manager = strings.TrimSpace(manager)
	replicas := w.kubectl("", "get", "-n", "signadot", manager, "-o", "jsonpath={.spec.replicas}")
	w.kubectl("", "scale", "-n", "signadot", manager, "--replicas=0")
	defer func() {
		w.kubectl("", "scale", "-n", "signadot", manager, "--replicas="+replicas)
		w.kubectl("", "rollout", "status", "-n", "signadot", manager, "--timeout=90s")
	}()
	w.kubectl("", "wait", "pods", "-n", "signadot", "-l", "control-plane=controller-manager", "--for=delete", "--timeout=60s")
	w.kubectl("", "delete", "namespace", namespace, "--timeout=90s")
}
