package manager_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/routingkey"
	"switchyard.dev/tests/world"
)

// notWithdrawn fails the test when any key was withdrawn after the first n facts.
func (c *cluster) notWithdrawn(n int) {
	c.Helper()
	for _, fact := range c.log.since(n) {
		if strings.Contains(fact, "Withdrawn") {
			c.Errorf("recorded: %s", fact)
		}
	}
}

func TestAnOlderObjectTakesNoKeyFromWhoHasIt(t *testing.T) {
	const ns = "held"
	c := shared(t, ns)
	c.served(ns, "one")
	older := c.group("held-a", "held-other")
	c.Condition(older, crdv1.ConditionAccepted, "True", "Accepted")
	s := c.sandbox("held-s", forkOf("held-key", ns, "one"))
	fork := c.forkFor(ns, "held-key")
	c.Available(fork)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")

	world.Edit(c.World, older, func(g *crdv1.SignadotRouteGroup) { g.Spec.RoutingKey = "held-key" })
	c.Says(c.Condition(older, crdv1.ConditionReady, "False", routingkey.ReasonTaken), "SignadotSandbox held-s, which had it first")
	c.silent("held-other") // It does not keep what it does not ask for.
	n := c.log.count()
	c.quiet()
	c.notWithdrawn(n)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	c.reaches(ns, "held-key", "held-s one")
	var now appsv1.Deployment
	if err := c.Client.Get(c.Context(), client.ObjectKeyFromObject(fork), &now); err != nil || now.UID != fork.UID {
		t.Errorf("the fork is another one: %v", err)
	}

	c.remove(s)
	c.Condition(older, crdv1.ConditionAccepted, "True", "Accepted")
	c.reaches(ns, "held-key")
}

func TestAKeyThatSomebodyWaitsForIsNeverUnknown(t *testing.T) {
	const ns = "waited"
	c := shared(t, ns)
	key := event.RoutingKey("waited-key")
	made := func(name string) *crdv1.RoutingConfig {
		r := newConfig(name)
		r.Annotations = map[string]string{crdv1.AnnotationRoutingKey: "waited-key"}
		c.Create(r)
		c.settled(r)
		return r
	}
	first, next := made("waited-a"), made("waited-b")
	c.Condition(first, crdv1.ConditionPublished, "True", "Published")
	c.Condition(next, crdv1.ConditionPublished, "False", routingkey.ReasonTaken)

	n := c.log.count()
	c.remove(first)
	c.Gone(first)
	c.Condition(next, crdv1.ConditionPublished, "True", "Published")
	c.notWithdrawn(n)
	if declared, ok := c.log.fact(key).(*factv1.RoutingDeclared); !ok || declared.GetOwner().GetName() != next.Name {
		t.Errorf("the log says %v", declared)
	}
	c.remove(next)
	c.Gone(next)
	c.silent("waited-key")
}
