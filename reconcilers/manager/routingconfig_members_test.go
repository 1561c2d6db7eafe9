package manager_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingconfig"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/world"
)

// conditionsOfConfigs returns the conditions that every RoutingConfig has at all times.
func conditionsOfConfigs() []string {
	return append((&crdv1.RoutingConfig{}).ConditionTypes(), baseline.ConditionSidecarsReady,
		routing.ConditionProxiesCurrent, routing.ConditionNoConflicts, routing.ConditionMiddlewaresApplied)
}

// settled waits until everything that is said of a RoutingConfig is about its spec.
func (c *cluster) settled(r *crdv1.RoutingConfig) {
	c.Helper()
	c.Eventually("everything is said of the newest spec of "+r.Name, func() error {
		if err := c.Look(r); err != nil {
			return err
		}
		if r.Status.ObservedGeneration != r.Generation {
			return fmt.Errorf("observedGeneration is %d of %d", r.Status.ObservedGeneration, r.Generation)
		}
		for _, t := range conditionsOfConfigs() {
			have := crdv1.FindCondition(r.Status.Conditions, t)
			if have == nil || have.ObservedGeneration != r.Generation {
				return fmt.Errorf("condition %s is %+v", t, have)
			}
		}
		return nil
	})
}

// What agents of older releases have written, and people write by hand.
func TestMembersThatAnOldAgentHasWritten(t *testing.T) {
	const ns, key = "old-agent", "old-agent-key"
	c := shared(t, ns)
	live := c.baseline(ns, "customer", withSidecar)
	c.pod(live, "a", readySidecar)
	fork := c.forkedWorkload(ns, "f", "customer")
	named := func(members ...string) *crdv1.RoutingConfig {
		r := &crdv1.RoutingConfig{}
		text := ""
		for _, m := range members {
			text += "  - {" + m + "}\n"
		}
		c.Make(r, "apiVersion: signadot.com/v1\nkind: RoutingConfig\nmetadata: {name: "+key+"}\nspec:\n  sandboxedWorkloads:\n"+text)
		return r
	}
	good := "kind: ForkedWorkload, namespace: " + ns + ", name: f"
	r := named(good, `kind: ForkedWorkload, namespace: "", name: f`, good, `kind: VirtualWorkload, namespace: nowhere, name: v`,
		good+", sandboxName: another", `kind: SignadotExternalWorkload, namespace: `+ns+`, name: ""`)
	c.settled(r)
	c.Says(c.Condition(r, crdv1.ConditionReady, "False", routingconfig.ReasonInvalidSpec), "sandboxedWorkloads[1] lacks kind, namespace or name, and is left out")
	c.Says(c.Condition(r, crdv1.ConditionWorkloadsFound, "False", routingconfig.ReasonWorkloadsNotFound), "VirtualWorkload nowhere/v")
	c.Condition(r, crdv1.ConditionPublished, "True", "Published")
	declared, _ := c.log.fact(event.RoutingKey(key)).(*factv1.RoutingDeclared)
	if len(declared.GetMembers()) != 2 || declared.GetMembers()[0].GetSandbox() != "f" {
		t.Errorf("declared: %v", declared)
	}

	// What is right is routed, whatever is wrong beside it.
	c.Eventually("the fork is routed", func() error {
		if rule, ok := c.table().Lookup(table.Workload{Kind: "Deployment", Namespace: ns, Name: "customer"}, key); !ok || rule.Member.Name != fork.Name {
			return errors.New("there is no rule")
		}
		return nil
	})
	c.namesMembers(r, 1)
	world.Edit(c.World, r, func(r *crdv1.RoutingConfig) { r.Spec.SandboxedWorkloads = r.Spec.SandboxedWorkloads[:1] })
	c.settled(r)
	c.Condition(r, crdv1.ConditionReady, "True", "Ready")

	// What the API server itself does not take.
	for _, wrong := range []crdv1.SandboxedWorkloadRef{{Kind: "Deployment", Namespace: ns, Name: "customer"}, {Namespace: ns, Name: "f"}} {
		o := &crdv1.RoutingConfig{ObjectMeta: r.ObjectMeta, Spec: crdv1.RoutingConfigSpec{
			SandboxedWorkloads: []crdv1.SandboxedWorkload{{SandboxedWorkloadRef: wrong}},
		}}
		if err := c.Client.Update(c.Context(), o); err == nil {
			t.Errorf("a member of kind %q was taken", wrong.Kind)
		}
	}
}

// namesMembers waits until the status of a RoutingConfig tells of so many members, each with
// one route.
func (c *cluster) namesMembers(r *crdv1.RoutingConfig, members int) {
	c.Helper()
	c.Eventually("the status tells of the members", func() error {
		if err := c.Look(r); err != nil {
			return err
		}
		if s := r.Status; len(s.ProcessedWorkloads) != members || s.RouteServer == nil || len(s.RouteServer.Routes) != members {
			return fmt.Errorf("it is %+v", s)
		}
		return nil
	})
}

// The log takes facts of up to 64 KiB. What is larger is refused and said, and what was
// there stays; what is smaller works, however many members it has.
func TestARoutingConfigWithAThousandMembers(t *testing.T) {
	const ns, key, many = "thousand", "thousand-key", 600
	c := shared(t, ns)
	r := newConfig(key)
	r.Spec.SandboxedWorkloads = membersOf(ns, many)
	c.Create(r)
	c.settled(r)
	message := c.Condition(r, crdv1.ConditionReady, "False", routingconfig.ReasonWorkloadsNotFound)
	c.Says(message, ns+"/member-0", fmt.Sprintf("and %d more", many-3))
	if len(message) > 500 {
		t.Errorf("the message has %d bytes: %s", len(message), message)
	}
	c.Condition(r, crdv1.ConditionPublished, "True", "Published")
	if declared, _ := c.log.fact(event.RoutingKey(key)).(*factv1.RoutingDeclared); len(declared.GetMembers()) != many {
		t.Errorf("declared are %d members", len(declared.GetMembers()))
	}

	// One of them comes, and is routed like the only one.
	live := c.baseline(ns, "customer", withSidecar)
	c.pod(live, "a", readySidecar)
	w := c.forkedWorkload(ns, "member-500", "customer")
	c.Eventually("the fork is routed", func() error {
		if rule, ok := c.table().Lookup(table.Workload{Kind: "Deployment", Namespace: ns, Name: "customer"}, key); !ok || rule.Member.Name != w.Name {
			return errors.New("there is no rule")
		}
		return nil
	})
	c.namesMembers(r, 1)

	world.Edit(c.World, r, func(r *crdv1.RoutingConfig) { r.Spec.SandboxedWorkloads = membersOf(ns, 1000) })
	c.settled(r)
	c.Says(c.Condition(r, crdv1.ConditionPublished, "False", publish.ReasonFactRefused), "Use fewer members")
	if declared, _ := c.log.fact(event.RoutingKey(key)).(*factv1.RoutingDeclared); len(declared.GetMembers()) != many {
		t.Errorf("declared are %d members", len(declared.GetMembers()))
	}

	// All but that one leave.
	world.Edit(c.World, r, func(r *crdv1.RoutingConfig) { r.Spec.SandboxedWorkloads = r.Spec.SandboxedWorkloads[500:501] })
	c.settled(r)
	c.Condition(r, crdv1.ConditionReady, "True", "Ready")
}

func TestAKeyThatChangesIsTakenAlong(t *testing.T) {
	const ns = "rekeyed"
	c := shared(t, ns)
	live := c.baseline(ns, "customer", withSidecar)
	c.pod(live, "a", readySidecar)
	c.virtual(ns, "v", "customer")
	r := c.leading("rekeyed", ns, [2]string{crdv1.KindVirtualWorkload, "v"})
	c.Condition(r, crdv1.ConditionReady, "True", "Ready")
	at := table.Workload{Kind: "Deployment", Namespace: ns, Name: "customer"}
	has := func(key string) bool { _, ok := c.table().Lookup(at, key); return ok }
	for former, key := "rekeyed", ""; ; former = key {
		switch former {
		case "rekeyed":
			key = "Second.Key"
		case "Second.Key":
			key = "日本"
		default:
			return
		}
		world.Edit(c.World, r, func(r *crdv1.RoutingConfig) {
			if r.Annotations == nil {
				r.Annotations = map[string]string{}
			}
			r.Annotations[crdv1.AnnotationRoutingKey] = key
		})
		c.Eventually("one key goes and another comes", func() error {
			if has(former) || !has(key) {
				return fmt.Errorf("%q is there: %t, %q is: %t", former, has(former), key, has(key))
			}
			return nil
		})
		c.Eventually("Ready speaks of the new key", func() error {
			if m := c.Condition(r, crdv1.ConditionReady, "True", "Ready"); !contains(m, fmt.Sprintf("%q", key)) {
				return errors.New(m)
			}
			return nil
		})
	}
}

// Ready of a RoutingConfig, and of the sandbox above it, is for those who wait for it:
// a baseline that is scaled up, whose new pods start, takes it from neither.
func TestABaselineThatIsScaledUpMakesNoRoutingConfigUnready(t *testing.T) {
	const ns = "scaled"
	c, routes, live, _ := gated(t, ns)
	routes.proxy(ns, "a", "customer")
	routes.proxy(ns, "b", "customer")
	c.virtual(ns, "v", "customer")
	r := c.leading("scaled-key", ns, [2]string{crdv1.KindVirtualWorkload, "v"})
	c.Condition(r, crdv1.ConditionReady, "True", "Ready")
	c.quiet()
	turned := c.unready(r)

	starting := corev1.ContainerStatus{Name: readySidecar.Name}
	injected := func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: readySidecar.Name, Image: "sidecar"})
	}
	var pods []*corev1.Pod
	for _, name := range []string{"c", "d", "e"} {
		pods = append(pods, c.podAs(live, name, injected, starting))
	}
	c.Condition(r, baseline.ConditionSidecarsReady, "False", baseline.ReasonSidecarNotReady)
	if r.Status.ProcessedWorkloads[0].Routes.DevMesh.Enabled {
		t.Error("DevMesh is told to be ready in all pods")
	}
	c.Condition(r, crdv1.ConditionReady, "True", "Ready")
	for _, p := range pods {
		p.Status.ContainerStatuses[0].Ready = true
		if err := c.Client.Status().Update(c.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	c.Condition(r, baseline.ConditionSidecarsReady, "True", "SidecarsReady")
	c.quiet()
	if m := turned(); m != "" {
		t.Errorf("it was not ready in between: %s", m)
	}

	// A pod without a sidecar gets requests that meet none: that is another matter.
	c.pod(live, "f")
	c.Says(c.Condition(r, crdv1.ConditionReady, "False", baseline.ReasonSidecarAbsent), "(f)")
}

// unready looks at a RoutingConfig until it is called, and then says what Ready said
// when it was not True; empty when it always was.
func (c *cluster) unready(r *crdv1.RoutingConfig) func() string {
	c.Helper()
	w, err := c.Client.Watch(c.Context(), &crdv1.RoutingConfigList{}, client.MatchingFields{"metadata.name": r.Name})
	c.Must(err)
	var mu sync.Mutex
	said, done := "", make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			o, ok := e.Object.(*crdv1.RoutingConfig)
			if !ok {
				continue
			}
			if have := crdv1.FindCondition(o.Status.Conditions, crdv1.ConditionReady); have == nil || have.Status != "True" {
				mu.Lock()
				said = fmt.Sprintf("%+v", have)
				mu.Unlock()
			}
		}
	}()
	return func() string {
		w.Stop()
		select {
		case <-done:
		case <-time.After(patience):
			c.Error("the watch does not end")
		}
		mu.Lock()
		defer mu.Unlock()
		return said
	}
}
