package routegroup_test

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/routegroup"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingkey"
)

// then is the time of everything in the world of the tests.
var then = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// group is a route group of these sandboxes.
func group(names ...string) *crdv1.SignadotRouteGroup {
	return &crdv1.SignadotRouteGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "g-uid", Generation: 3, CreationTimestamp: then},
		Spec:       crdv1.SignadotRouteGroupSpec{RoutingKey: "key", SandboxNames: names},
	}
}

// is is a condition of an object of generation 1.
func is(t, status, reason, message string) crdv1.StatusCondition {
	return crdv1.StatusCondition{Type: t, Status: status, Reason: reason, Message: message, ObservedGeneration: 1, LastTransitionTime: then}
}

// sandboxOf is a ready sandbox with these members.
func sandboxOf(name string, members ...crdv1.Member) routegroup.Sandbox {
	s := &crdv1.SignadotSandbox{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Generation: 1, CreationTimestamp: then},
		Spec:       crdv1.SignadotSandboxSpec{ID: name + "-id", Name: "shown-" + name},
	}
	s.Status.Conditions = []crdv1.StatusCondition{is(crdv1.ConditionReady, "True", "Ready", "It is.")}
	return routegroup.Sandbox{Object: s, Members: members}
}

// unready is the sandbox with another condition for Ready.
func unready(s routegroup.Sandbox, reason, message string) routegroup.Sandbox {
	s.Object.Status.Conditions = []crdv1.StatusCondition{is(crdv1.ConditionReady, "False", reason, message)}
	return s
}

// fork is a member that forks Deployment base in namespace ns and whose baseline has
// its sidecars.
func fork(name, base string) *crdv1.ForkedWorkload {
	w := &crdv1.ForkedWorkload{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), Generation: 1, CreationTimestamp: then},
		Spec:       crdv1.ForkedWorkloadSpec{Baseline: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: base}},
	}
	w.Status.Baseline = &crdv1.WorkloadBaseline{WorkloadID: base + "-uid"}
	w.Status.RoutingConfig = &crdv1.WorkloadRoutingInfo{DevMeshSidecarPresent: true}
	w.Status.Conditions = []crdv1.StatusCondition{
		is(crdv1.ConditionReady, "True", "Ready", "It is."),
		is(crdv1.ConditionForkAvailable, "True", "ForkAvailable", "It is."),
		is(baseline.ConditionSidecarsReady, "True", "SidecarsReady", "They are."),
	}
	return w
}

// external is a member without a baseline.
func external(name string) *crdv1.SignadotExternalWorkload {
	return &crdv1.SignadotExternalWorkload{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name)}}
}

// of puts a group and sandboxes into one world.
func of(g *crdv1.SignadotRouteGroup, sandboxes ...routegroup.Sandbox) routegroup.Input {
	in := routegroup.Input{Group: g, Sandboxes: map[string]routegroup.Sandbox{}}
	for _, s := range sandboxes {
		in.Sandboxes[s.Object.Name] = s
	}
	return in
}

// claimed adds the claim of another, so much older.
func claimed(in routegroup.Input, kind, name string, older time.Duration) routegroup.Input {
	in.Claims = append(in.Claims, routingkey.Claim{Kind: kind, Name: name, UID: types.UID(name), Created: metav1.NewTime(then.Add(-older))})
	return in
}

// published returns the RoutingConfig of a decision as it is once it is on the log, and
// every proxy knows it.
func published(d routegroup.Decision) *crdv1.RoutingConfig {
	if d.Config == nil {
		return nil
	}
	c := d.Config.DeepCopy()
	c.UID, c.Generation = "config", 1
	c.Status.Conditions = []crdv1.StatusCondition{
		is(crdv1.ConditionAccepted, "True", "Accepted", "It is."),
		is(crdv1.ConditionPublished, "True", "Published", "It is."),
		is(routing.ConditionProxiesCurrent, "True", routing.ReasonNotAwaited, "Nobody waits."),
	}
	return c
}

// conclude returns the group with its status when all that was decided was done.
func conclude(in routegroup.Input) *crdv1.SignadotRouteGroup {
	d := routegroup.Decide(in)
	return routegroup.Conclude(in, d, routegroup.Made{Config: published(d)}, then)
}
