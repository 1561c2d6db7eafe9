package e2e

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"switchyard.dev/tools/traffic"
)

// consumerManifest is a consumer of messages with its broker, in a namespace of its own,
// NAMESPACE.
//
//go:embed testdata/consumer.yaml
var consumerManifest string

// consumerSandbox forks the consumer, and the customer service of HotROD beside it.
const consumerSandbox = `{"apiVersion":"signadot.com/v1","kind":"SignadotSandbox","metadata":{"name":%[1]q},
"spec":{"id":%[1]q,"name":%[1]q,"customization":{"patches":[
  {"target":{"apiVersion":"apps/v1","kind":"Deployment","namespace":%[2]q,"name":"consumer"},
   "strategic":{"spec":{"template":{"spec":{"containers":[{"name":"consumer","env":[{"name":"VERSION","value":"fork"}]}]}}}}},
  {"target":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"hotrod","name":"customer"},
   "strategic":{"spec":{"template":{"spec":{"containers":[{"name":"hotrod","image":"switchyard.dev/demo-customer:dev","args":[]}]}}}}}]}}}`

// The published demonstrations of message consumers (the driver of HotROD, the consumers of
// the Kafka and Pub/Sub ones) have no Service and no sidecar. Each variant gets every
// message and asks the route server for the rules of its baseline, a fork for those that
// lead to its sandbox. The baseline processes what no rule is for, the fork what one of its
// rules is for. Their sandboxes are Ready on the published operator.
func TestAMessageConsumerRoutesByItsQueries(t *testing.T) {
	const sandbox, namespace = "e2e-consumer", "e2e-consumer"
	w := newWorld(t)
	w.kubectl(strings.ReplaceAll(consumerManifest, "NAMESPACE", namespace), "apply", "-f", "-")
	w.removeAfter("namespace", namespace)
	w.kubectl(fmt.Sprintf(consumerSandbox, sandbox, namespace), "apply", "-f", "-")
	w.removeAfter("signadotsandbox", sandbox)
	w.kubectl("", "wait", "signadotsandbox/"+sandbox, "--for=condition=Ready", "--timeout=120s")
	w.routingReady(sandbox, "True", "No Service selects Deployment "+namespace+"/consumer, so no request reaches its fork, and it needs no DevMesh sidecar",
		"(a consumer of messages asks the route server itself")
	w.countsConsumer(namespace, "not_needed")

	w.kubectl("", "rollout", "status", "deployment/broker", "-n", namespace, "--timeout=60s")
	broker := w.broker(namespace)
	for key, side := range map[string]string{"": "baseline", sandbox: "fork", "nobodys": "baseline"} {
		w.eventually(fmt.Sprintf("a message with key %q is processed by the %s alone", key, side), 30*time.Second, func() error {
			got, err := processedBy(broker, key)
			if want := map[string]bool{"baseline": side == "baseline", "fork": side == "fork"}; err == nil && !maps.Equal(got, want) {
				err = fmt.Errorf("it is processed: %v", got)
			}
			return err
		})
		// The same key, in a request through a real sidecar.
		if want := map[string]traffic.Side{"baseline": traffic.Baseline, "fork": traffic.Fork}[side]; w.serves(key, want) != nil {
			t.Errorf("a request: %v", w.serves(key, want))
		}
	}
	w.aServiceOfTheConsumerCounts(sandbox, namespace)
}

// aServiceOfTheConsumerCounts gives the consumer a Service without a selector, whose
// Endpoints Kubernetes copies into an EndpointSlice, and takes it away.
func (w *world) aServiceOfTheConsumerCounts(sandbox, namespace string) {
	w.t.Helper()
	pod := w.kubectl("", "get", "pods", "-n", namespace, "-l", "app=consumer", "-o", "jsonpath={.items[0].status.podIP}")
	w.kubectl(fmt.Sprintf(`{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Service","metadata":{"name":"by-address","namespace":%[1]q},"spec":{"ports":[{"port":80}]}},
{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"by-address","namespace":%[1]q},"subsets":[{"addresses":[{"ip":%[2]q}],"ports":[{"port":8080}]}]}]}`,
		namespace, pod), "apply", "-f", "-")
	w.kubectl("", "wait", "signadotsandbox/"+sandbox, "--for=condition=Ready=False", "--timeout=30s")
	w.routingReady(sandbox, "False", "DevMesh Sidecar absent on baseline "+namespace+"/consumer: annotate its pod template")
	w.countsConsumer(namespace, "missing")
	w.kubectl("", "delete", "service", "by-address", "-n", namespace)
	w.kubectl("", "wait", "signadotsandbox/"+sandbox, "--for=condition=Ready", "--timeout=30s")
}

// routingReady checks what a sandbox says of its routing.
func (w *world) routingReady(sandbox, status string, says ...string) {
	w.t.Helper()
	message := w.kubectl("", "get", "signadotsandbox", sandbox, "-o",
		`jsonpath={range .status.conditions[?(@.type=="RoutingReady")]}{.status}: {.message}{end}`)
	for _, part := range append(says, status+": ") {
		if !strings.Contains(message, part) {
			w.t.Errorf("RoutingReady does not say %q: %s", part, message)
		}
	}
}

// countsConsumer waits until the leading manager counts the pod of the consumer in a state
// of package coverage, and in none that is amiss.
func (w *world) countsConsumer(namespace, state string) {
	w.t.Helper()
	w.eventually("the pod of the consumer is "+state, 20*time.Second, func() error {
		pods := w.kubectl("", "get", "pods", "-n", "signadot", "-l", "control-plane=controller-manager", "-o", "jsonpath={.items[*].metadata.name}")
		var seen []string
		for _, pod := range strings.Fields(pods) {
			metrics := w.kubectl("", "get", "--raw", "/api/v1/namespaces/signadot/pods/"+pod+":8080/proxy/metrics")
			for line := range strings.Lines(metrics) {
				if strings.HasPrefix(line, "switchyard_devmesh_pods{") && strings.Contains(line, fmt.Sprintf("namespace=%q", namespace)) &&
					strings.Contains(line, `workload="consumer"`) && !strings.HasSuffix(line, " 0\n") {
					seen = append(seen, strings.TrimSpace(line))
				}
			}
		}
		if len(seen) != 1 || !strings.Contains(seen[0], fmt.Sprintf("state=%q", state)) || !strings.HasSuffix(seen[0], " 1") {
			return fmt.Errorf("counted: %q", seen)
		}
		return nil
	})
}

// broker connects to the broker of the namespace.
func (w *world) broker(namespace string) *nats.Conn {
	w.t.Helper()
	conn, err := nats.Connect(strings.Replace(w.url(namespace, "broker", 4222), "http:", "nats:", 1))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(conn.Close)
	return conn
}

// processedBy sends a message with a key and reports of the two variants of the consumer, by
// version, whether they processed it.
func processedBy(broker *nats.Conn, key string) (map[string]bool, error) {
	inbox, err := broker.SubscribeSync(nats.NewInbox())
	if err != nil {
		return nil, err
	}
	defer func() { _ = inbox.Unsubscribe() }()
	message := nats.NewMsg("parcels")
	message.Reply = inbox.Subject
	if key != "" {
		message.Header.Set("baggage", "sd-routing-key="+key)
	}
	if err := broker.PublishMsg(message); err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for len(out) < 2 {
		reply, err := inbox.NextMsg(5 * time.Second)
		if err != nil {
			return nil, fmt.Errorf("of two variants answered %v: %w", out, err)
		}
		var answer struct {
			Version   string
			Processed bool
		}
		if err := json.Unmarshal(reply.Data, &answer); err != nil {
			return nil, fmt.Errorf("%w in %q", err, reply.Data)
		}
		out[answer.Version] = answer.Processed
	}
	return out, nil
}
