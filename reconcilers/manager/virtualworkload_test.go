package manager_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingconfig"
	"switchyard.dev/routeserver/published"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/world"
)

// virtual makes a virtual workload before a Deployment.
func (c *cluster) virtual(ns, name, before string) *crdv1.VirtualWorkload {
	c.Helper()
	v := &crdv1.VirtualWorkload{}
	c.Make(v, `{apiVersion: signadot.com/v1, kind: VirtualWorkload, metadata: {name: `+name+`, namespace: `+ns+`, annotations: {signadot.com/sandbox-name: watcher}},
  spec: {name: watch, baseline: {apiVersion: apps/v1, kind: Deployment, name: `+before+`}}}`)
	return v
}

// leading makes a RoutingConfig with members, each as kind/name of the namespace.
func (c *cluster) leading(key, ns string, members ...[2]string) *crdv1.RoutingConfig {
	c.Helper()
	r := &crdv1.RoutingConfig{ObjectMeta: named(key), Spec: crdv1.RoutingConfigSpec{SandboxedWorkloads: []crdv1.SandboxedWorkload{}}}
	for _, m := range members {
		r.Spec.SandboxedWorkloads = append(r.Spec.SandboxedWorkloads, crdv1.SandboxedWorkload{
			SandboxedWorkloadRef: crdv1.SandboxedWorkloadRef{Kind: m[0], Namespace: ns, Name: m[1]},
		})
	}
	c.Create(r)
	return r
}

// table folds what is on the log.
func (c *cluster) table() table.Table {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	return table.Table{}.Apply(c.log.history...)
}

// states waits until the newest fact about a member is of a type.
func (c *cluster) states(what string, key event.Key, want proto.Message) {
	c.Helper()
	c.Eventually(what, func() error {
		if have := c.log.fact(key); have == nil || have.ProtoReflect().Descriptor() != want.ProtoReflect().Descriptor() {
			return fmt.Errorf("the log says %v", have)
		}
		return nil
	})
}

func TestAVirtualWorkloadKeepsItsRequestsAtTheBaseline(t *testing.T) {
	const ns, key = "virtual", "virtual-key"
	c := shared(t, ns)
	live := c.baseline(ns, "consumer", withSidecar)
	c.pod(live, "a", readySidecar)
	v := c.virtual(ns, "watch", "consumer")
	r := c.leading(key, ns, [2]string{crdv1.KindVirtualWorkload, "watch"})
	message := c.Condition(v, crdv1.ConditionReady, "True", "Ready")
	c.Says(message, "Deployment "+ns+"/consumer", "stay with it")
	c.tells(v, "Normal Ready "+message)
	c.Condition(r, crdv1.ConditionReady, "True", "Ready")
	if len(v.Finalizers) > 0 {
		t.Errorf("it has finalizers, which a namespace would wait for: %v", v.Finalizers)
	}

	// The status says what there is, and no place to be led to.
	want := crdv1.VirtualWorkloadStatus{
		ObservedGeneration: 1, Baseline: &crdv1.WorkloadBaseline{WorkloadID: string(live.UID), Generation: 1},
		RoutingConfig: &crdv1.WorkloadRoutingInfo{DevMeshSidecarPresent: true, Services: []crdv1.ServiceMapping{
			{From: "consumer", Ports: []crdv1.MappedPort{{Port: 80, TargetPort: 8080}}},
		}},
	}
	have := *v.Status.DeepCopy()
	have.Conditions = nil
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	if r.Status.RouteServer != nil || len(r.Status.ProcessedWorkloads) != 1 || r.Status.ProcessedWorkloads[0].Workload.SandboxName != "watcher" {
		t.Errorf("the RoutingConfig says %+v", r.Status)
	}

	// So do the log, the table and the published API.
	of := member.Key(crdv1.KindVirtualWorkload, ns, "watch")
	said, _ := c.log.fact(of).(*factv1.WorkloadObserved)
	pairs := []*factv1.ServicePair{{From: "consumer", Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}}}
	if diff := cmp.Diff(pairs, said.GetServices(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	rule, ok := c.table().Lookup(table.Workload{Kind: "Deployment", Namespace: ns, Name: "consumer"}, key)
	if !ok || !rule.Kept() || rule.Sandbox != "watcher" {
		t.Errorf("the rule is %v", rule)
	}
	if rules := (published.Filter{Namespace: ns}).Rules(c.table()); len(rules) > 0 {
		t.Errorf("consumers of messages are told %v", rules)
	}

	// It follows its baseline.
	c.remove(live)
	c.Says(c.Condition(v, crdv1.ConditionReady, "False", baseline.ReasonBaselineNotFound), "create it, or name another one")
	c.states("a baseline that is away for a moment leaves the rule", of, &factv1.WorkloadObserved{})
	c.remove(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "consumer"}})
	again := c.baseline(ns, "consumer", withSidecar)
	c.Condition(v, crdv1.ConditionReady, "True", "Ready")
	c.Eventually("it stands for the new one", func() error {
		if said, _ := c.log.fact(of).(*factv1.WorkloadObserved); said.GetBaseline().GetUid() != string(again.UID) {
			return fmt.Errorf("the log says %v", said)
		}
		return nil
	})

	// Another spec is another baseline, of which nothing was seen.
	world.Edit(c.World, v, func(v *crdv1.VirtualWorkload) { v.Spec.Baseline.Name = "nobody" })
	c.Condition(v, crdv1.ConditionBaselineFound, "False", baseline.ReasonBaselineNotFound)
	c.states("the key is not held for what was never seen", of, &factv1.WorkloadWithdrawn{})
	if v.Status.Baseline != nil || v.Status.RoutingConfig != nil || v.Status.ObservedGeneration != v.Generation {
		t.Errorf("the status says %+v", v.Status)
	}
	c.Condition(r, crdv1.ConditionReady, "False", routingconfig.ReasonWorkloadsNotFound)

	world.Edit(c.World, v, func(v *crdv1.VirtualWorkload) { v.Spec.Baseline.Name = "consumer" })
	c.states("it is back", of, &factv1.WorkloadObserved{})
	c.Condition(r, crdv1.ConditionWorkloadsFound, "True", "WorkloadsFound") // Or what it says below is what it said above.
	c.remove(v)
	c.Gone(v)
	c.states("it is withdrawn", of, &factv1.WorkloadWithdrawn{})
	c.Says(c.Condition(r, crdv1.ConditionReady, "False", routingconfig.ReasonWorkloadsNotFound), "no VirtualWorkload "+ns+"/watch")
}

func TestAVirtualWorkloadThatGoesWhileNobodyLooksIsWithdrawn(t *testing.T) {
	const ns = "virtual-gone"
	c := newCluster(t, ns)
	stop := c.manage(manager.Config{})
	c.baseline(ns, "consumer", withSidecar)
	v := c.virtual(ns, "watch", "consumer")
	of := member.Key(crdv1.KindVirtualWorkload, ns, "watch")
	c.states("it is stated", of, &factv1.WorkloadObserved{})
	stop()
	c.remove(v)
	c.Gone(v) // at once: nothing holds it
	c.manage(manager.Config{})
	c.states("it is withdrawn at the next start", of, &factv1.WorkloadWithdrawn{})
}

func TestAKeyThatIsKeptWaitsForItsProxiesToo(t *testing.T) {
	const ns = "virtual-receipt"
	c, routes, _, _ := gated(t, ns)
	routes.proxy(ns, "a", "customer")
	b := routes.proxy(ns, "b", "customer")
	b.Hold()
	c.virtual(ns, "watch", "customer")
	r := c.leading("virtual-receipt-key", ns, [2]string{crdv1.KindVirtualWorkload, "watch"})
	c.Says(c.Condition(r, routing.ConditionProxiesCurrent, "False", routingconfig.ReasonProxiesBehind), "1 of 2 proxies", ns+"/b (behind)")
	b.Release()
	c.Condition(r, crdv1.ConditionReady, "True", "Ready")
}

func TestOfAForkAndAVirtualWorkloadTheOlderHoldsTheBaseline(t *testing.T) {
	const ns, key = "contested", "contested-key"
	c := shared(t, ns)
	live := c.baseline(ns, "customer", withSidecar)
	c.pod(live, "a", readySidecar)
	other := c.baseline(ns, "mail", withSidecar)
	c.pod(other, "b", readySidecar)
	c.virtual(ns, "a-watch", "customer") // of the same second as the fork, perhaps: then the name decides
	fork := c.forkedWorkload(ns, "b-fork", "customer")
	third := c.forkedWorkload(ns, "c-fork", "mail")
	r := c.leading(key, ns, [2]string{crdv1.KindForkedWorkload, "b-fork"}, [2]string{crdv1.KindVirtualWorkload, "a-watch"},
		[2]string{crdv1.KindForkedWorkload, "c-fork"})
	c.Says(c.Condition(r, routing.ConditionNoConflicts, "False", routing.ReasonRoutingConflict),
		`VirtualWorkload `+ns+`/a-watch of sandbox "watcher" and ForkedWorkload `+ns+`/b-fork of sandbox "b-fork" both represent Deployment `+ns+`/customer`,
		`Sandbox "watcher" gets the requests`)
	c.Says(c.Condition(r, crdv1.ConditionReady, "True", "Ready"), "both represent")

	// The routing of others works, and the table knows the same loser.
	c.Eventually("the others are led to their forks", func() error {
		rule, ok := c.table().Lookup(table.Workload{Kind: "Deployment", Namespace: ns, Name: "mail"}, key)
		if !ok || rule.Member.Name != third.Name || len(rule.Mappings) == 0 {
			return fmt.Errorf("the rule is %v", rule)
		}
		return nil
	})
	conflicts := slices.DeleteFunc(c.table().Conflicts(), func(o table.Conflict) bool { return o.RoutingKey != key })
	if len(conflicts) != 1 || conflicts[0].Holder.Name != "a-watch" || conflicts[0].Loser.Name != "b-fork" {
		t.Errorf("the table says %+v", conflicts)
	}

	// Once the holder is gone there is none, and the other one has the requests.
	c.remove(&crdv1.VirtualWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a-watch"}})
	world.Edit(c.World, r, func(r *crdv1.RoutingConfig) {
		r.Spec.SandboxedWorkloads = append(r.Spec.SandboxedWorkloads[:1], r.Spec.SandboxedWorkloads[2:]...)
	})
	c.Condition(r, routing.ConditionNoConflicts, "True", routing.ConditionNoConflicts)
	c.Eventually("the fork has them", func() error {
		if rule, ok := c.table().Lookup(table.Workload{Kind: "Deployment", Namespace: ns, Name: "customer"}, key); !ok || rule.Member.Name != fork.Name {
			return errors.New("it has not")
		}
		return nil
	})
}

func TestUnappliedMiddlewaresAreReported(t *testing.T) {
	const ns = "unapplied"
	c := shared(t, ns)
	live := c.baseline(ns, "customer", withSidecar)
	c.pod(live, "a", readySidecar)
	c.virtual(ns, "watch", "customer")
	r := c.leading("unapplied-key", ns, [2]string{crdv1.KindVirtualWorkload, "watch"})
	c.Condition(r, crdv1.ConditionReady, "True", "Ready")
	world.Edit(c.World, r, func(r *crdv1.RoutingConfig) {
		r.Spec.SandboxedWorkloads[0].Middlewares = []crdv1.MiddlewareInstance{{Middleware: "override", Args: []crdv1.MiddlewareArg{{Name: "host", Value: "localhost"}}}}
	})
	c.Says(c.Condition(r, crdv1.ConditionReady, "False", baseline.ReasonNotSupportedYet), `"override" before VirtualWorkload `+ns+`/watch`, "are skipped")
	c.Condition(r, crdv1.ConditionPublished, "True", "Published")
	if got := r.Status.ProcessedWorkloads[0].Middlewares; len(got) != 1 || got[0].Middleware != "override" {
		t.Errorf("the status says %v", got)
	}
}
