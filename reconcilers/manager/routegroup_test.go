package manager_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/routegroup"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingkey"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/world"
)

// group makes a route group with the given key and sandboxes.
func (c *cluster) group(name, key string, sandboxes ...string) *crdv1.SignadotRouteGroup {
	c.Helper()
	g := &crdv1.SignadotRouteGroup{ObjectMeta: named(name), Spec: crdv1.SignadotRouteGroupSpec{RoutingKey: key, SandboxNames: sandboxes}}
	c.Create(g)
	return g
}

// served makes a baseline with one pod that has its sidecar.
func (c *cluster) served(ns, name string) {
	c.Helper()
	c.pod(c.baseline(ns, name, withSidecar), name+"-h-1", corev1.ContainerStatus{Name: devmesh.ContainerName, Ready: true})
}

// reaches waits until a key reaches the members of these sandboxes, each a line
// "sandbox baseline", as the log says.
func (c *cluster) reaches(ns, key string, want ...string) {
	c.Helper()
	c.Eventually(fmt.Sprintf("key %s reaches %v", key, want), func() error {
		declared, _ := c.log.fact(event.RoutingKey(key)).(*factv1.RoutingDeclared)
		got := []string{}
		for _, m := range declared.GetMembers() {
			w := &crdv1.ForkedWorkload{}
			if err := c.Client.Get(c.Context(), client.ObjectKey{Namespace: ns, Name: m.GetName()}, w); err != nil {
				return err
			}
			got = append(got, m.GetSandbox()+" "+w.Spec.Baseline.Name)
		}
		if declared == nil || !slices.Equal(got, want) {
			return fmt.Errorf("it reaches %v", got)
		}
		return nil
	})
}

// silent waits until the log says that a key is withdrawn.
func (c *cluster) silent(key string) {
	c.Helper()
	c.Eventually("key "+key+" is withdrawn", func() error {
		if fact, ok := c.log.fact(event.RoutingKey(key)).(*factv1.RoutingWithdrawn); !ok {
			return fmt.Errorf("the log says %v", fact)
		}
		return nil
	})
}

// forkFor waits for the Deployment of the fork that the sandbox with this key has.
func (c *cluster) forkFor(ns, key string) *appsv1.Deployment {
	c.Helper()
	d := &appsv1.Deployment{}
	c.Eventually("a fork is made for "+key, func() error {
		for _, w := range c.forks(ns) {
			if w.Annotations[crdv1.AnnotationRoutingKey] == key && w.Status.Fork != nil {
				return c.Client.Get(c.Context(), client.ObjectKey{Namespace: ns, Name: w.Status.Fork.ObjectRef.Name}, d)
			}
		}
		return errors.New("there is none")
	})
	return d
}

func TestARouteGroupFollowsItsSandboxes(t *testing.T) {
	const ns = "group"
	c := shared(t, ns)
	c.served(ns, "one")
	c.served(ns, "two")

	// It is there before any of its sandboxes.
	g := c.group("group", "group-key", "group-a", "group-b", "group-a")
	c.Says(c.Condition(g, crdv1.ConditionReady, "False", routegroup.ReasonSandboxesNotFound), "group-a, group-b", "create it")
	c.reaches(ns, "group-key")

	// They come one by one.
	a := c.sandbox("group-a", forkOf("group-a-key", ns, "one"))
	c.reaches(ns, "group-key", "group-a one")
	b := c.sandbox("group-b", forkOf("group-b-key", ns, "two"))
	c.reaches(ns, "group-key", "group-a one", "group-b two")
	c.Condition(g, crdv1.ConditionReady, "False", routegroup.ReasonSandboxesNotReady)
	first, second := c.forkFor(ns, "group-a-key"), c.forkFor(ns, "group-b-key")
	c.Available(first)
	c.Available(second)
	c.Says(c.Condition(g, crdv1.ConditionReady, "True", "Ready"), `"group-key"`, "2 sandboxes")
	if g.Status.TotalSandboxes != 2 || g.Status.ReadySandboxes != 2 || g.Status.ObservedGeneration != g.Generation {
		t.Errorf("status: %+v", g.Status)
	}
	owner := c.log.fact(event.RoutingKey("group-key")).(*factv1.RoutingDeclared).GetOwner()
	if owner.GetKind() != crdv1.KindRouteGroup || owner.GetName() != "group" || owner.GetUid() != string(g.UID) {
		t.Errorf("the key belongs to %v", owner)
	}

	// A member that cannot serve for a while takes nothing down: not one fact about the key.
	before := c.log.count()
	c.unavailable(first)
	c.Condition(g, crdv1.ConditionReady, "False", routegroup.ReasonSandboxesNotReady)
	if g.Status.ReadySandboxes != 1 {
		t.Errorf("status: %+v", g.Status)
	}
	c.Available(first)
	c.Condition(g, crdv1.ConditionReady, "True", "Ready")
	for _, f := range c.log.since(before) {
		if strings.HasPrefix(f, "*factv1.Routing") {
			t.Errorf("a member that was away has changed the routing: %v", c.log.since(before))
		}
	}

	// A sandbox goes, and comes again under its name.
	c.remove(a)
	c.Gone(a)
	c.reaches(ns, "group-key", "group-b two")
	c.Condition(g, crdv1.ConditionReady, "False", routegroup.ReasonSandboxesNotFound)
	c.sandbox("group-a", forkOf("group-a-key", ns, "two"))
	c.reaches(ns, "group-key", "group-a two", "group-b two")

	// Now two of them fork one baseline: the older one has it, and the other is told.
	c.Available(c.forkFor(ns, "group-a-key"))
	c.Says(c.Condition(g, crdv1.ConditionReady, "False", routing.ReasonRoutingConflict),
		"Deployment "+ns+"/two", `sandbox "group-a"`, `Sandbox "group-b" gets the requests`)
	c.Condition(g, crdv1.ConditionRoutingReady, "True", "RoutingReady")

	// The list changes.
	world.Edit(c.World, g, func(g *crdv1.SignadotRouteGroup) { g.Spec.SandboxNames = []string{"group-a"} })
	c.reaches(ns, "group-key", "group-a two")
	c.Condition(g, crdv1.ConditionReady, "True", "Ready")
	world.Edit(c.World, g, func(g *crdv1.SignadotRouteGroup) { g.Spec.SandboxNames = nil })
	c.reaches(ns, "group-key")
	c.Condition(g, crdv1.ConditionReady, "True", "Ready")

	// So does the key.
	world.Edit(c.World, g, func(g *crdv1.SignadotRouteGroup) {
		g.Spec.RoutingKey, g.Spec.SandboxNames = "Ключ für alle", []string{"group-b"}
	})
	c.silent("group-key")
	c.reaches(ns, "Ключ für alle", "group-b two")

	// The end, which nothing holds up.
	if len(g.Finalizers) > 0 {
		t.Errorf("the group has finalizers: %v", g.Finalizers)
	}
	c.remove(g)
	c.Gone(g)
	c.silent("Ключ für alle")
	c.Condition(b, crdv1.ConditionReady, "True", "Ready")
}

// bisect, diff and history name the cause of an event. Whoever looks for what took the
// routes away must find the object that somebody changed, and not one that nobody touched.
func TestTheCauseOfAGroupsRoutingIsWhatHasChanged(t *testing.T) {
	const ns = "causes"
	c := shared(t, ns)
	c.served(ns, "one")
	c.served(ns, "two")
	key := event.RoutingKey("causes-group")
	caused := func(why string, by client.Object, kind, via string) {
		t.Helper()
		got := c.log.cause(key)
		if got.Kind != kind || got.Name != by.GetName() || got.UID != string(by.GetUID()) || got.Manager == "" || got.Generation == 0 || got.Via != via {
			t.Errorf("%s: caused by %+v", why, got)
		}
	}
	a := c.sandbox("causes-a", forkOf("causes-a-key", ns, "one"))
	b := c.sandbox("causes-b", forkOf("causes-b-key", ns, "two"))
	c.forkFor(ns, "causes-a-key")
	c.forkFor(ns, "causes-b-key")
	g := c.group("causes", "causes-group", "causes-a", "causes-b", "causes-c")
	c.reaches(ns, "causes-group", "causes-a one", "causes-b two")
	caused("a group is made", g, crdv1.KindRouteGroup, "")

	world.Edit(c.World, b, func(s *crdv1.SignadotSandbox) { s.Spec.Customization.Patches = nil })
	c.reaches(ns, "causes-group", "causes-a one")
	caused("a sandbox forks nothing any more", b, crdv1.KindSandbox, "SignadotRouteGroup/causes")

	late := c.sandbox("causes-c", forkOf("causes-c-key", ns, "two"))
	c.reaches(ns, "causes-group", "causes-a one", "causes-c two")
	caused("a sandbox comes", late, crdv1.KindSandbox, "SignadotRouteGroup/causes")

	c.remove(a)
	c.reaches(ns, "causes-group", "causes-c two")
	caused("a sandbox is deleted", a, crdv1.KindSandbox, "SignadotRouteGroup/causes")

	world.Edit(c.World, g, func(g *crdv1.SignadotRouteGroup) { g.Spec.SandboxNames = nil })
	c.reaches(ns, "causes-group")
	caused("the group names no sandbox any more", g, crdv1.KindRouteGroup, "")

	world.Edit(c.World, g, func(g *crdv1.SignadotRouteGroup) { g.Spec.SandboxNames = []string{"causes-c"} })
	c.reaches(ns, "causes-group", "causes-c two")
	c.remove(late)
	c.reaches(ns, "causes-group")
	c.remove(g)
	c.silent("causes-group")
	caused("the group is deleted", g, crdv1.KindRouteGroup, "")
}

func TestASandboxLeavesItsGroupsBeforeItsForksGo(t *testing.T) {
	const ns = "leaves"
	c := shared(t, ns)
	c.served(ns, "one")
	s := c.sandbox("leaves", forkOf("leaves-key", ns, "one"))
	c.Available(c.forkFor(ns, "leaves-key"))
	c.group("leaves", "leaves-group", "leaves")
	c.reaches(ns, "leaves-group", "leaves one")
	before := c.log.count()
	c.remove(s)
	c.Gone(s)
	c.Eventually("the fork is withdrawn", func() error {
		if f := c.log.since(before); len(f) < 3 {
			return fmt.Errorf("the log has %v", f)
		}
		return nil
	})
	facts := c.log.since(before)
	left := slices.Index(facts, "*factv1.RoutingDeclared key/leaves-group")
	gone := slices.IndexFunc(facts, func(f string) bool { return strings.HasPrefix(f, "*factv1.WorkloadWithdrawn") })
	if left < 0 || gone < left {
		t.Errorf("the fork was gone before its group let go of it: %v", facts)
	}
}

func TestAKeyHasOneHolderAmongSandboxesAndGroups(t *testing.T) {
	// Of objects that are made within one second the first by name counts as older: the
	// names here are in the order in which they are made.
	const ns = "pot"
	c := shared(t, ns)
	c.served(ns, "one")
	s := c.sandbox("pot-0", forkOf("pot-key", ns, "one"))
	c.Available(c.forkFor(ns, "pot-key"))
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")

	older := c.group("pot-a", "pot-key", "pot-0")
	c.Says(c.Condition(older, crdv1.ConditionReady, "False", routingkey.ReasonTaken), "SignadotSandbox pot-0", "choose another spec.routingKey")
	c.Condition(older, crdv1.ConditionRoutingReady, "False", routingkey.ReasonTaken)
	younger := c.group("pot-b", "pot-key")
	c.Condition(younger, crdv1.ConditionReady, "False", routingkey.ReasonTaken)
	c.reaches(ns, "pot-key", "pot-0 one")
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")

	// The sandbox goes, and the older of the groups has the key.
	c.remove(s)
	c.Gone(s)
	c.reaches(ns, "pot-key")
	c.Condition(older, crdv1.ConditionAccepted, "True", "Accepted")
	c.Eventually("the younger group names the older as the holder", func() error {
		message := c.Condition(younger, crdv1.ConditionAccepted, "False", routingkey.ReasonTaken)
		if !strings.Contains(message, "SignadotRouteGroup pot-a") {
			return errors.New(message)
		}
		return nil
	})

	// A new sandbox waits for both of them.
	again := c.sandbox("pot-z", forkOf("pot-key", ns, "one"))
	c.Says(c.Condition(again, crdv1.ConditionReady, "False", routingkey.ReasonTaken), "SignadotRouteGroup pot-a")
	c.remove(older)
	c.Condition(younger, crdv1.ConditionAccepted, "True", "Accepted")
	world.Edit(c.World, younger, func(g *crdv1.SignadotRouteGroup) { g.Spec.RoutingKey = "pot-other" })
	c.Available(c.forkFor(ns, "pot-key"))
	c.Condition(again, crdv1.ConditionReady, "True", "Ready")
	c.reaches(ns, "pot-key", "pot-z one")
}

func TestAGroupThatIsMadeAgainHasItsKeyAgain(t *testing.T) {
	const ns = "made-again"
	c := newCluster(t, ns)
	stop := c.manage(manager.Config{})
	g := c.group("made-again", "made-again-key")
	c.Condition(g, crdv1.ConditionReady, "True", "Ready")
	stop()
	// Nobody hears of the end of the first, nor collects what it has left.
	c.remove(g)
	c.Gone(g)
	g = c.group("made-again", "made-again-key")
	c.manage(manager.Config{})
	c.Condition(g, crdv1.ConditionReady, "True", "Ready")
	c.Eventually("the config is that of the second", func() error {
		config := &crdv1.RoutingConfig{}
		if err := c.Client.Get(c.Context(), client.ObjectKey{Name: "made-again-key"}, config); err != nil {
			return err
		}
		if config.OwnerReferences[0].UID != g.UID {
			return errors.New("it is that of the first")
		}
		return nil
	})
}

func TestKeysOfAllSorts(t *testing.T) {
	const ns = "keys"
	c := shared(t, ns)
	for i, key := range []string{"UPPER", "a b", "日本語", "-", "..", "a/b", "a\tb", "a;b", `"`, strings.Repeat("é", 500)} {
		g := c.group(fmt.Sprintf("keys-%d", i), key)
		c.Condition(g, crdv1.ConditionReady, "True", "Ready")
		c.reaches(ns, key)
		c.remove(g)
		c.silent(key)
	}
	for i, key := range []string{"", strings.Repeat("k", 1001), strings.Repeat("k", 300_000)} {
		g := c.group(fmt.Sprintf("keys-none-%d", i), key)
		c.Says(c.Condition(g, crdv1.ConditionReady, "False", baseline.ReasonInvalidSpec), "spec.routingKey", "give it")
		c.remove(g)
	}
	// A request with such a key would reach the baseline: baggage and tracestate end a value
	// at a comma, readers take spaces off its ends, and HTTP allows no newline.
	for i, key := range []string{"a,b", " a", "a ", "a\nb", "a\x7fb"} {
		g := c.group(fmt.Sprintf("keys-uncarried-%d", i), key)
		c.Says(c.Condition(g, crdv1.ConditionReady, "False", baseline.ReasonInvalidSpec), "spec.routingKey", "no header can carry it (baggage, tracestate, custom headers)")
		c.remove(g)
		if fact := c.log.fact(event.RoutingKey(key)); fact != nil {
			t.Errorf("key %q: the log says %v", key, fact)
		}
	}
	g := c.group("keys-semicolon", "semi;colon")
	c.Says(c.Condition(g, crdv1.ConditionReady, "True", "Ready"), "cannot carry it in baggage")
	c.Says(c.Condition(g, crdv1.ConditionAccepted, "True", routingkey.ReasonWarning), "cannot carry it in baggage")
	byHand := &crdv1.RoutingConfig{ObjectMeta: named("keys-by-hand"), Spec: crdv1.RoutingConfigSpec{SandboxedWorkloads: []crdv1.SandboxedWorkload{}}}
	byHand.Annotations = map[string]string{crdv1.AnnotationRoutingKey: "by,hand"}
	c.Create(byHand)
	c.Says(c.Condition(byHand, crdv1.ConditionAccepted, "False", baseline.ReasonInvalidSpec), `"by,hand" contains ","`, crdv1.AnnotationRoutingKey)
}

func TestAGroupIsReadyOnceEveryProxyKnowsItsKey(t *testing.T) {
	const ns = "group-receipt"
	c, routes, _, _ := gated(t, ns)
	routes.proxy(ns, "a", "customer")
	b := routes.proxy(ns, "b", "customer")
	s := c.sandbox("group-receipt", forkOf("group-receipt-sb", ns, "customer"))
	c.Available(c.forkFor(ns, "group-receipt-sb"))
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	b.Hold()
	g := c.group("group-receipt", "group-receipt-key", s.Name)
	c.Says(c.Condition(g, crdv1.ConditionReady, "False", routing.ReasonNotReady), ns+"/b (behind)", `"group-receipt-key"`)
	b.Release()
	c.Condition(g, crdv1.ConditionReady, "True", "Ready")
}

func TestAGroupAtRestIsNotWritten(t *testing.T) {
	const ns = "rest"
	c := shared(t, ns)
	c.served(ns, "one")
	s := c.sandbox("rest", forkOf("rest-sb", ns, "one"))
	c.Available(c.forkFor(ns, "rest-sb"))
	g := c.group("rest", "rest-key", "rest")
	c.Condition(g, crdv1.ConditionReady, "True", "Ready")
	c.quiet()
	before := len(c.wrote())
	world.Edit(c.World, s, func(s *crdv1.SignadotSandbox) { s.Annotations = map[string]string{"looked": "at"} })
	world.Edit(c.World, g, func(g *crdv1.SignadotRouteGroup) { g.Annotations = map[string]string{"looked": "at"} })
	c.quiet()
	for _, w := range c.wrote()[before:] {
		if strings.Contains(w, "rest-key") || strings.Contains(w, "signadotroutegroups") {
			t.Errorf("it was written: %s", w)
		}
	}
}
