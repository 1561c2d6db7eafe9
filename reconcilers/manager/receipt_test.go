package manager_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingconfig"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/world"
)

var readySidecar = corev1.ContainerStatus{Name: devmesh.ContainerName, Ready: true}

// gated runs controllers that wait for proxies, and a route server that knows them.
// The baseline customer has the pods a and b.
func gated(t *testing.T, ns string) (c *cluster, routes *routeServer, live *appsv1.Deployment, stop func()) {
	t.Helper()
	c = newCluster(t, ns)
	routes = c.routes(t)
	stop = c.manage(manager.Config{RouteServer: routes.address})
	c.Eventually("the routing log is whole", func() error { return c.main.LogReady() })
	live = c.baseline(ns, "customer", withSidecar)
	c.pod(live, "a", readySidecar)
	c.pod(live, "b", readySidecar)
	return c, routes, live, stop
}

func TestASandboxIsNotReadyBeforeEveryProxyKnowsItsKey(t *testing.T) {
	const ns = "receipt"
	c, routes, live, stop := gated(t, ns)
	routes.proxy(ns, "a", "customer")
	b := routes.proxy(ns, "b", "customer")

	// b takes its time.
	b.Hold()
	s := c.sandbox("gated", forkOf("gated-key", ns, "customer"))
	early := c.everReady(s)
	_, fork := c.fork(ns)
	c.Available(fork)
	config := &crdv1.RoutingConfig{ObjectMeta: named("gated-key")}
	c.Condition(config, routing.ConditionProxiesCurrent, "False", routingconfig.ReasonProxiesBehind)
	message := c.Condition(s, crdv1.ConditionReady, "False", routing.ReasonNotReady)
	c.Says(message, "1 of 2 proxies", `"gated-key"`, ns+"/b (behind)", "kubectl logs -n "+ns+" b")
	c.Condition(s, crdv1.ConditionRoutingReady, "False", routing.ReasonNotReady)
	c.Condition(s, crdv1.ConditionWorkloadsReady, "True", "WorkloadsReady")

	// It refuses; and then takes what it gets next.
	c.Eventually("b refuses", func() error {
		if b.Refuse("no such cluster") {
			return nil
		}
		return errors.New("it has nothing to refuse")
	})
	c.Eventually("the message says why", func() error {
		if m := c.Condition(s, crdv1.ConditionReady, "False", routing.ReasonNotReady); !contains(m, "it refused: no such cluster") {
			return errors.New(m)
		}
		return nil
	})
	if early() {
		t.Error("the sandbox was ready while a proxy did not know its key")
	}
	other := c.sandbox("other", forkOf("other-key", ns, "customer")) // other rules, so that b gets something new
	b.Release()
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	c.Says(c.Condition(config, routing.ConditionProxiesCurrent, "True", "ProxiesCurrent"), `"gated-key"`)
	c.remove(other)
	c.Gone(other)

	// What was had is had: a pod that comes later, and its proxy, do not matter.
	c.pod(live, "late", readySidecar)
	c.quiet()
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")

	// Nor does a route server that is away, also for the next manager.
	early = c.everUnready(s)
	routes.stop()
	stop()
	c.manage(manager.Config{RouteServer: routes.address})
	c.Eventually("the routing log is whole", func() error { return c.main.LogReady() })
	world.Edit(c.World, s, func(s *crdv1.SignadotSandbox) { s.Annotations = map[string]string{"looked": "at"} })
	world.Edit(c.World, config, func(r *crdv1.RoutingConfig) { r.Annotations["looked"] = "at" })
	c.quiet()
	c.stays(s, early)

	// What is new has to be acknowledged, and nobody can say that it was.
	third := c.sandbox("third", forkOf("third-key", ns, "customer"))
	c.Eventually("a fork is made", func() error {
		for _, w := range c.forks(ns) {
			if w.Annotations[crdv1.AnnotationRoutingKey] == "third-key" && w.Status.Fork != nil {
				fork.Name = w.Status.Fork.ObjectRef.Name
				return nil
			}
		}
		return errors.New("there is none")
	})
	c.Available(fork)
	c.Says(c.Condition(third, crdv1.ConditionReady, "False", routingconfig.ReasonRouteServerUnavailable), "Deployment signadot/routeserver")
}

func TestAPodWhoseProxyIsNotConnectedIsNamed(t *testing.T) {
	const ns = "disconnected"
	c, routes, _, _ := gated(t, ns)
	routes.proxy(ns, "a", "customer")
	s := c.sandbox("disconnected", forkOf("disconnected-key", ns, "customer"))
	_, fork := c.fork(ns)
	c.Available(fork)
	c.Says(c.Condition(s, crdv1.ConditionReady, "False", routing.ReasonNotReady),
		"1 of 2 proxies", ns+"/b (its sidecar is not connected to a route server)")
	routes.proxy(ns, "b", "customer")
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")

	// The fork is gone and comes back: what proxies know of it has changed twice, so
	// they are asked again, and b has to know it again.
	c.unavailable(fork)
	c.Condition(s, crdv1.ConditionWorkloadsReady, "False", "ForkProgressing")
	c.Available(fork)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
}

func TestABaselinePodThatStartsMakesNoSandboxUnready(t *testing.T) {
	const ns = "starting"
	c, routes, live, _ := gated(t, ns)
	routes.proxy(ns, "a", "customer")
	routes.proxy(ns, "b", "customer")
	s, w, _ := c.ready("had", "had-key", ns, "customer")
	early := c.everUnready(s)
	starting := c.podAs(live, "c", func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: devmesh.ContainerName, Image: "sidecar"})
	})
	c.Condition(w, baseline.ConditionSidecarsReady, "False", baseline.ReasonSidecarNotReady)
	c.quiet()
	c.stays(s, early)

	// A pod that takes requests without a sidecar does.
	c.remove(starting)
	c.pod(live, "d")
	c.Says(c.Condition(s, crdv1.ConditionReady, "False", routing.ReasonNotReady), "absent", "(d)")
}

func TestARecreatedRouteNeedsAnotherAcknowledgement(t *testing.T) {
	const ns = "back"
	c, routes, _, _ := gated(t, ns)
	routes.proxy(ns, "a", "customer")
	b := routes.proxy(ns, "b", "customer")
	_, w, _ := c.ready("back", "back-key", ns, "customer")
	config := &crdv1.RoutingConfig{}
	c.Make(config, `{apiVersion: signadot.com/v1, kind: RoutingConfig, metadata: {name: by-hand},
  spec: {sandboxedWorkloads: [{kind: ForkedWorkload, namespace: `+ns+`, name: `+w.Name+`}]}}`)
	c.Condition(config, crdv1.ConditionReady, "True", "Ready")

	b.Hold()
	members := config.Spec.SandboxedWorkloads
	world.Edit(c.World, config, func(r *crdv1.RoutingConfig) { r.Spec.SandboxedWorkloads = nil })
	c.Says(c.Condition(config, routing.ConditionProxiesCurrent, "True", "ProxiesCurrent"), "reaches no workload")
	world.Edit(c.World, config, func(r *crdv1.RoutingConfig) { r.Spec.SandboxedWorkloads = members })
	c.Says(c.Condition(config, routing.ConditionProxiesCurrent, "False", routingconfig.ReasonProxiesBehind), ns+"/b (behind)")
	b.Release()
	c.Condition(config, crdv1.ConditionReady, "True", "Ready")
}

func TestWithoutPodsThereIsNobodyToWaitFor(t *testing.T) {
	const ns = "nobody"
	c := newCluster(t, ns)
	c.manage(manager.Config{RouteServer: c.routes(t).address})
	c.baseline(ns, "customer", withSidecar)
	c.ready("nobody", "nobody-key", ns, "customer")
	empty := c.sandbox("nothing", "{id: nothing-key}")
	c.Condition(empty, crdv1.ConditionRoutingReady, "True", "RoutingReady")
}

func TestConditionReportsThatProxiesAreNotAwaited(t *testing.T) {
	const ns = "waived"
	c := shared(t, ns)
	base := c.baseline(ns, "customer", withSidecar)
	c.pod(base, "a", readySidecar) // its sidecar is connected to nothing
	c.ready("waived", "waived-key", ns, "customer")
	c.Condition(&crdv1.RoutingConfig{ObjectMeta: named("waived-key")}, routing.ConditionProxiesCurrent, "True", routing.ReasonNotAwaited)
}

// everReady tells, of the time until it is called, whether a sandbox was ever ready.
func (c *cluster) everReady(s *crdv1.SignadotSandbox) func() bool { return c.ever(s, "True") }

// everUnready reports whether it was ever not.
func (c *cluster) everUnready(s *crdv1.SignadotSandbox) func() bool { return c.ever(s, "False") }

// ever watches the condition Ready of a sandbox.
func (c *cluster) ever(s *crdv1.SignadotSandbox, status string) func() bool {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	w, err := c.Client.Watch(ctx, &crdv1.SignadotSandboxList{}, &client.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", s.Name)})
	c.Must(err)
	var mu sync.Mutex
	var was bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			o, ok := e.Object.(*crdv1.SignadotSandbox)
			if !ok {
				continue
			}
			ready := crdv1.FindCondition(o.Status.Conditions, crdv1.ConditionReady)
			mu.Lock()
			was = was || ready != nil && ready.Status == status
			mu.Unlock()
		}
	}()
	c.Cleanup(func() { w.Stop(); cancel(); <-done })
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return was
	}
}

// stays says that a sandbox is ready and was so all the time.
func (c *cluster) stays(s *crdv1.SignadotSandbox, unready func() bool) {
	c.Helper()
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	if unready() {
		c.Error("it was not ready meanwhile")
	}
}

// unavailable sets the status of a Deployment as if no pod of it could serve.
func (c *cluster) unavailable(d *appsv1.Deployment) {
	c.Helper()
	c.Eventually("the status of a Deployment can be set", func() error {
		if err := c.Look(d); err != nil {
			return fmt.Errorf("read it: %w", err)
		}
		d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 0, 0, 0
		d.Status.Replicas = 0
		return c.Client.Status().Update(c.Context(), d)
	})
}
