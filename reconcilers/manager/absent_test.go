package manager_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingconfig"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/world"
)

// rule waits until a key has a rule for a Deployment that is ready or not, and of a member that
// is there or not.
func (c *cluster) rule(ns, name, key string, ready, absent bool) (found *table.Rule) {
	c.Helper()
	c.Eventually(fmt.Sprintf("key %s has a rule, ready is %t, absent %t", key, ready, absent), func() error {
		r, ok := c.table().Lookup(table.Workload{Kind: "Deployment", Namespace: ns, Name: name}, key)
		if found = r; !ok || r.Ready != ready || r.Absent() != absent {
			return fmt.Errorf("it is %v", r)
		}
		return nil
	})
	return found
}

// neverAtBaseline fails the test when in any version of the table after the first n facts the
// key had no rule for a Deployment.
func (c *cluster) neverAtBaseline(ns, name, key string, n int) {
	c.Helper()
	all := c.log.all()
	t := table.Table{}.Apply(all[:n]...)
	for _, e := range all[n:] {
		t = t.Apply(e)
		if _, ok := t.Lookup(table.Workload{Kind: "Deployment", Namespace: ns, Name: name}, key); !ok {
			c.Errorf("requests with key %s reach the baseline after %T %s", key, e.Fact.Data, e.Fact.Key)
		}
	}
}

// A member is deleted and has no controller that creates it again: until it is removed from the
// declaration, requests with its key fail, also after the log was lost.
func TestADeclaredMemberThatIsDeletedIsNotReadyUntilItIsLetGo(t *testing.T) {
	const ns, key = "absent", "absent-key"
	c := start(t, ns)
	base := c.baseline(ns, "a", withSidecar)
	c.pod(base, "a-1", readySidecar)
	w := c.forkedWorkload(ns, "mine", "a")
	r := c.leading(key, ns, [2]string{crdv1.KindForkedWorkload, "mine"})
	_, fork := c.fork(ns)
	c.Available(fork)
	c.Condition(r, crdv1.ConditionReady, "True", "Ready")
	before := c.rule(ns, "a", key, true, false)
	c.quiet()
	n := c.log.count()

	c.remove(w)
	c.stated(ns, "mine", &factv1.WorkloadWithdrawn{})
	gone := c.rule(ns, "a", key, false, true)
	if len(gone.Mappings) != 1 || gone.Mappings[0].WorkloadPort != before.Mappings[0].WorkloadPort || gone.Mappings[0].Destinations[0].Address != "" {
		t.Errorf("its mappings are %v", gone.Mappings)
	}
	c.Says(c.Condition(r, crdv1.ConditionReady, "False", routingconfig.ReasonWorkloadsNotFound), "503", ns+"/mine")
	c.quiet()
	c.neverAtBaseline(ns, "a", key, n)

	c.log.lose()
	c.Eventually("the new log has the rule", func() error { return c.absent(ns, "a", key, true) })

	// One that is restored from a file, as kubectl writes it, and no member with it.
	c.Must(c.Look(r))
	restored := &crdv1.RoutingConfig{ObjectMeta: named(key), Spec: r.Spec}
	restored.Annotations = map[string]string{routing.AnnotationMembers: r.Annotations[routing.AnnotationMembers]}
	c.remove(r)
	c.Gone(r)
	c.Create(restored)
	c.Eventually("the restored one has the rule", func() error { return c.absent(ns, "a", key, true) })

	world.Edit(c.World, restored, func(r *crdv1.RoutingConfig) { r.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{} })
	c.Eventually("requests reach the baseline", func() error { return c.absent(ns, "a", key, false) })
}

// absent returns an error unless the newest log has a rule of a member that is not there, or,
// where none is wanted, no rule.
func (c *cluster) absent(ns, name, key string, want bool) error {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	var now table.Table
	for _, e := range c.log.newest {
		now = now.Apply(e)
	}
	if r, ok := now.Lookup(table.Workload{Kind: "Deployment", Namespace: ns, Name: name}, key); ok != want || ok && !r.Absent() {
		return fmt.Errorf("the rule is %v", r)
	}
	return nil
}

// The sandbox creates a deleted member again, and withdraws a member before it deletes it.
func TestTheKeyOfASandboxWhoseMemberIsDeletedNeverReachesTheBaseline(t *testing.T) {
	const ns, key = "again", "again-key"
	c := shared(t, ns)
	c.baseline(ns, "a", withSidecar)
	c.baseline(ns, "b", withSidecar)
	s, w, _ := c.ready("again", key, ns, "a")
	c.quiet()
	n := c.log.count()
	former := w.UID

	c.remove(w)
	c.Eventually("another member has a fork", func() error {
		if err := c.Look(w); err != nil || w.UID == former || w.Status.Fork == nil {
			return errors.Join(err, fmt.Errorf("it is %s with fork %v", w.UID, w.Status.Fork))
		}
		return nil
	})
	_, fork := c.fork(ns)
	c.Available(fork)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	c.rule(ns, "a", key, true, false)
	c.neverAtBaseline(ns, "a", key, n)

	// Another baseline takes its place: the log lets go of the member before that goes.
	n = c.log.count()
	c.log.fail(errors.New("the bus is away"))
	c.becomes(s, forkOf(key, ns, "b"))
	c.Condition(s, crdv1.ConditionRoutingReady, "False", "LogUnavailable")
	c.quiet()
	if err := c.Look(w); err != nil || w.DeletionTimestamp != nil {
		t.Errorf("the member goes before the log lets go of it: %v", err)
	}
	c.log.fail(nil)
	c.Gone(w)
	c.Eventually("requests reach the baseline", func() error {
		if r, ok := c.table().Lookup(table.Workload{Kind: "Deployment", Namespace: ns, Name: "a"}, key); ok {
			return fmt.Errorf("the rule is %v", r)
		}
		return nil
	})
	for _, fact := range c.log.since(n) {
		if contains(fact, "WorkloadWithdrawn") && contains(fact, w.Name) {
			break
		}
		if contains(fact, "RoutingDeclared") {
			return
		}
	}
	t.Errorf("recorded are %v", c.log.since(n))
}

// Nothing of a sandbox can be made in a namespace that is missing. Once the baseline is there the
// sandbox goes on, before it would look by itself (apply.RefusedAgain).
func TestASandboxGoesOnOnceItsBaselineAppears(t *testing.T) {
	const ns, missing = "appears", "appears-not-yet"
	c := shared(t, ns)
	s := c.sandbox("appears", forkOf("appears-key", missing, "a"))
	c.Says(c.Condition(s, crdv1.ConditionWorkloadsReady, "False", "BaselineNotFound"), "continues by itself")
	c.quiet() // What the RoutingConfig reports has been seen.
	c.Create(&corev1.Namespace{ObjectMeta: named(missing)})
	c.baseline(missing, "a", withSidecar)
	for deadline := time.Now().Add(apply.RefusedAgain * 2 / 3); len(c.forks(missing)) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the member is not made")
		}
	}
}
