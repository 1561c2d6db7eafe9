package manager_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/world"
)

// A consumer of messages as published demonstrations have them (the driver of HotROD, the
// consumers of the Kafka and Pub/Sub ones): a Deployment without a Service and without an
// annotation that asks for a sidecar. It asks the route server itself which keys are its
// own, so its sandbox is Ready; with a Service, whose requests no sidecar would read, it is
// not, whether that has a selector or names addresses, nor while that Service selects others.
func TestAConsumerNeedsNoSidecarUntilAServiceLeadsToIt(t *testing.T) {
	const ns = "consumer"
	c := newCluster(t, ns)
	registry := prometheus.NewRegistry()
	var config manager.Config
	config.Metrics, config.SurveyEvery = registry, 100*time.Millisecond
	c.manage(config)
	d := &appsv1.Deployment{}
	c.Make(d, `
metadata: {name: consumer, namespace: `+ns+`}
spec:
  selector: {matchLabels: {app: consumer}}
  template:
    metadata: {labels: {app: consumer}}
    spec: {containers: [{name: main, image: "consumer:1"}]}`)
	pod := c.pod(d, "consumer-h-1", corev1.ContainerStatus{Name: "main", Ready: true})
	s := c.sandbox("consumer", forkOf("consumer-key", ns, "consumer"))
	_, fork := c.fork(ns)
	c.Available(fork)

	needsNone := func(when, ready string, says ...string) {
		t.Helper()
		c.Condition(s, crdv1.ConditionReady, map[bool]string{true: "True", false: "False"}[ready == "Ready"], ready)
		c.Says(c.Condition(s, crdv1.ConditionRoutingReady, "True", "RoutingReady"), says...)
		c.counted(t, registry, ns, when, "not_needed")
		w := c.forks(ns)[0]
		c.Condition(&w, baseline.ConditionSidecarsReady, "True", baseline.ReasonNoService)
		if info := w.Status.RoutingConfig; info.DevMeshSidecarPresent || len(info.Services) > 0 {
			t.Errorf("%s the fork is reached as %+v", when, info)
		}
	}
	needsOne := func(when, service string, port int32) {
		t.Helper()
		c.Says(c.Condition(s, crdv1.ConditionRoutingReady, "False", "RoutingNotReady"),
			"DevMesh Sidecar absent on baseline consumer/consumer: annotate its pod template")
		c.counted(t, registry, ns, when, "missing")
		c.Eventually(when+" the fork has a Service for it", func() error {
			info := c.forks(ns)[0].Status.RoutingConfig
			if len(info.Services) != 1 || info.Services[0].From != service || info.Services[0].To == "" ||
				len(info.Services[0].Ports) != 1 || info.Services[0].Ports[0] != (crdv1.MappedPort{Port: 80, TargetPort: port}) {
				return fmt.Errorf("it is %+v", info.Services)
			}
			return nil
		})
	}
	needsNone("at first", "Ready", "No Service selects Deployment consumer/consumer, so no request reaches its fork, and it needs no DevMesh sidecar", "asks the route server itself")

	selects := &corev1.Service{}
	c.Make(selects, "{metadata: {name: selects, namespace: "+ns+"}, spec: {selector: {app: consumer}, ports: [{port: 80, targetPort: 8080}]}}")
	needsOne("with a Service", "selects", 8080)
	c.remove(selects)
	needsNone("without it", "Ready", "Service selects, which selected Deployment consumer/consumer, was deleted")

	c.Make(&corev1.Service{}, "{metadata: {name: names, namespace: "+ns+"}, spec: {ports: [{port: 80}]}}")
	slice := &discoveryv1.EndpointSlice{}
	c.Make(slice, `
metadata: {name: names-1, namespace: `+ns+`, labels: {kubernetes.io/service-name: names}}
addressType: IPv4
endpoints: [{addresses: [10.1.2.3]}]
ports: [{port: 9090}]`)
	c.quiet()
	needsNone("while the Service selects other addresses", "Ready", "Service selects, which selected Deployment consumer/consumer, was deleted")
	address(c, pod, "10.1.2.3")
	c.count(d)
	needsOne("once the pod has the address", "names", 9090)
	world.Edit(c.World, slice, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "10.1.2.4" })
	needsNone("when the address is another one's", baseline.ReasonServicesMoved, "No Service selects Deployment consumer/consumer any more")
	world.Edit(c.World, slice, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "10.1.2.3" })
	needsOne("when it is the pod's again", "names", 9090)
	c.remove(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "names"}})
	needsNone("when the Service is deleted and its EndpointSlice is left", "Ready", "Service names, which selected Deployment consumer/consumer, was deleted")
}

// address gives a pod its address.
func address(c *cluster, p *corev1.Pod, ip string) {
	c.Helper()
	c.Eventually("the pod gets its address", func() error {
		if err := c.Look(p); err != nil {
			return err
		}
		p.Status.PodIP, p.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
		return c.Client.Status().Update(c.Context(), p)
	})
}

// counted waits until the one pod of the consumer is counted in a state, and in no other.
func (c *cluster) counted(t *testing.T, registry *prometheus.Registry, ns, when, state string) {
	c.Helper()
	c.Eventually(when+" the pod is "+state, func() error {
		have := measured(t, registry)
		for _, s := range []string{"ok", "not_needed", "outdated", "not_ready", "missing"} {
			want := 0.0
			if s == state {
				want = 1
			}
			name := fmt.Sprintf("switchyard_devmesh_pods kind=Deployment namespace=%s state=%s workload=consumer", ns, s)
			if have[name] != want {
				return fmt.Errorf("%s is %v", name, have[name])
			}
		}
		return nil
	})
}
