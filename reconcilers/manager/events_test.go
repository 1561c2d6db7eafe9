package manager_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/world"
)

// told returns the events about an object, each as type, reason and message.
func (c *cluster) told(o client.Object) (out []string) {
	c.Helper()
	var list corev1.EventList
	c.List(&list)
	for _, e := range list.Items {
		if e.InvolvedObject.UID == o.GetUID() {
			out = append(out, e.Type+" "+e.Reason+" "+e.Message)
		}
	}
	slices.Sort(out)
	return out
}

// tells waits until there is an event about an object.
func (c *cluster) tells(o client.Object, event string) {
	c.Helper()
	c.Eventually("it is told that "+event, func() error {
		if told := c.told(o); !slices.Contains(told, event) {
			return fmt.Errorf("the events are %q", told)
		}
		return nil
	})
}

// kubectl runs the real one as a user who may do everything.
func (c *cluster) kubectl(args ...string) string {
	c.Helper()
	command := exec.CommandContext(c.Context(), filepath.Join(apiserver.Binaries(), "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "HOME="+c.TempDir())
	out, err := command.CombinedOutput()
	if err != nil {
		c.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestKubectlDescribeShowsWhatHasHappened(t *testing.T) {
	const ns = "events"
	c := newCluster(t, ns)
	stop := c.manage(manager.Config{})
	// Without a baseline, and then with one.
	s := c.sandbox("events", forkOf("events-key", ns, "one"))
	c.Condition(s, crdv1.ConditionReady, "False", baseline.ReasonBaselineNotFound)
	c.served(ns, "one")
	c.Available(c.forkFor(ns, "events-key"))
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	g := c.group("events", "events-group", "events", "nobody")
	c.Condition(g, crdv1.ConditionReady, "False", "SandboxesNotFound")
	c.tells(s, "Normal Ready All desired workloads are available.")
	c.Eventually("the group's trouble is told", func() error {
		if told := c.told(g); len(told) != 1 || !strings.HasPrefix(told[0], "Warning SandboxesNotFound There is no SignadotSandbox nobody") {
			return fmt.Errorf("the events are %q", told)
		}
		return nil
	})
	for _, kind := range []string{"sds", "sdrg"} {
		described := c.kubectl("describe", kind, "events")
		_, events, _ := strings.Cut(described, "\nEvents:")
		for _, part := range map[string][]string{
			"sds":  {"Warning  BaselineNotFound", "Normal   Ready", "switchyard", "All desired workloads are available."},
			"sdrg": {"Warning  SandboxesNotFound", "create it"},
		}[kind] {
			if !strings.Contains(events, part) {
				t.Errorf("kubectl describe %s events does not show %q:\n%s", kind, part, described)
			}
		}
	}
	// Its parts are silent: what is wrong with them stands with the sandbox.
	for _, w := range c.forks(ns) {
		if told := c.told(&w); len(told) > 0 {
			t.Errorf("the fork has events of its own: %q", told)
		}
	}

	// A manager that is started again has nothing to tell.
	before := c.told(s)
	stop()
	c.manage(manager.Config{})
	c.Eventually("the routing log is whole", func() error { return c.main.LogReady() })
	world.Edit(c.World, s, func(s *crdv1.SignadotSandbox) { s.Annotations = map[string]string{"looked": "at"} })
	c.quiet()
	if now := c.told(s); !slices.Equal(before, now) {
		t.Errorf("it has told %q, before %q", now, before)
	}
}

func TestAFlappingObjectRecordsFewEvents(t *testing.T) {
	const ns = "flapping"
	c := start(t, ns)
	g := c.group("flapping", "flapping-key")
	c.Condition(g, crdv1.ConditionReady, "True", "Ready")
	const times = 12
	for range times {
		world.Edit(c.World, g, func(g *crdv1.SignadotRouteGroup) { g.Spec.SandboxNames = []string{"nobody"} })
		c.Condition(g, crdv1.ConditionReady, "False", "SandboxesNotFound")
		world.Edit(c.World, g, func(g *crdv1.SignadotRouteGroup) { g.Spec.SandboxNames = nil })
		c.Condition(g, crdv1.ConditionReady, "True", "Ready")
	}
	c.Eventually("both are told, as series", func() error {
		var list corev1.EventList
		if err := c.Client.List(c.Context(), &list, client.InNamespace("default")); err != nil {
			return err
		}
		series := 0
		for _, e := range list.Items {
			if e.InvolvedObject.UID == g.UID && e.Series != nil {
				series++
			}
		}
		if series != 2 {
			return fmt.Errorf("there are %d series", series)
		}
		return nil
	})
	c.quiet()
	if told := c.told(g); len(told) != 2 {
		t.Errorf("the events are %q", told)
	}
	wrote := 0
	for _, w := range c.wrote() {
		if strings.Contains(w, "/events") {
			wrote++
		}
	}
	if wrote >= times {
		t.Errorf("%d turns have cost %d requests for events", 2*times, wrote)
	}
}

func TestALongMessageIsTruncatedInEvents(t *testing.T) {
	const ns = "long-events"
	c := shared(t, ns)
	name := strings.Repeat("n", 200)
	g := c.group("long-events", "long-events-key", "a"+name, "b"+name, "c"+name, "d"+name, "e"+name, "f"+name)
	c.Condition(g, crdv1.ConditionReady, "False", "SandboxesNotFound")
	c.Eventually("it is told", func() error {
		if len(c.told(g)) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
}
