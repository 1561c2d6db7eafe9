package manager_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/drain"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/world"
)

func TestUninstallationNamesForeignFinalizersAndEnds(t *testing.T) {
	const ns = "held"
	c := ownCluster(t, ns)
	c.manage(manager.Config{})
	s := c.inhabited(ns)[0].(*crdv1.SignadotSandbox)
	world.Edit(c.World, s, func(s *crdv1.SignadotSandbox) { s.Finalizers = append(s.Finalizers, "example.com/theirs") })
	var told bytes.Buffer
	// What has nobody to force is not given the time for it.
	config := drain.Config{Client: c.program(), Wait: 10 * time.Second, Force: time.Hour, Logger: slog.New(slog.NewTextHandler(&told, nil))}
	err := drain.Run(t.Context(), config)
	if err == nil || !strings.Contains(err.Error(), "these objects are left: SignadotSandbox left (held by finalizer example.com/theirs).") {
		t.Errorf("the error does not say what is left, and why: %v", err)
	}
	if strings.Contains(told.String(), "level=WARN") {
		t.Errorf("nothing was forced, and it tells:\n%s", told.String())
	}
	c.nothingLeft(ns, "left-key")
	world.Edit(c.World, s, func(s *crdv1.SignadotSandbox) { s.Finalizers = nil })
	c.Gone(s)
}

// inhabited makes objects of each kind that people make, and waits until they are served.
func (c *cluster) inhabited(ns string) (objects []client.Object) {
	c.Helper()
	c.served(ns, "one")
	s := c.sandbox("left", forkOf("left-key", ns, "one"))
	c.Available(c.forkFor(ns, "left-key"))
	g := c.group("left", "left-group", "left")
	c.reaches(ns, "left-group", "left one")
	byHand := &crdv1.RoutingConfig{}
	c.Make(byHand, `{apiVersion: signadot.com/v1, kind: RoutingConfig, metadata: {name: by-hand}, spec: {sandboxedWorkloads: []}}`)
	fork := &crdv1.ForkedWorkload{}
	c.Make(fork, `{apiVersion: signadot.com/v1, kind: ForkedWorkload, metadata: {name: by-hand, namespace: `+ns+`},
  spec: {baseline: {apiVersion: apps/v1, kind: Deployment, name: one}}}`)
	for name, o := range map[string]client.Object{"Ready": s, "Published": byHand} {
		c.Condition(o, name, "True", name)
	}
	return []client.Object{s, g, byHand, fork}
}

func TestRemainingObjectsAreDeletedBeforeTheManager(t *testing.T) {
	t.Parallel()
	const ns = "drained"
	c := ownCluster(t, ns)
	c.manage(manager.Config{})
	objects := c.inhabited(ns)
	// What belongs to something that is not ours goes with nothing of ours.
	home := &corev1.Namespace{ObjectMeta: named(ns)}
	c.Get(home)
	world.Edit(c.World, objects[2].(*crdv1.RoutingConfig), func(r *crdv1.RoutingConfig) {
		r.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(home, corev1.SchemeGroupVersion.WithKind("Namespace"))}
	})
	before := c.log.count()
	var told bytes.Buffer
	err := drain.Run(t.Context(), drain.Config{Client: c.program(), Wait: patience, Logger: slog.New(slog.NewTextHandler(&told, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		c.Gone(o)
	}
	c.nothingLeft(ns, "left-key")
	if strings.Contains(told.String(), "level=WARN") {
		t.Errorf("something was forced:\n%s", told.String())
	}
	for _, key := range []string{"left-key", "left-group", "by-hand"} {
		if !strings.Contains(strings.Join(c.log.since(before), "\n")+"\n", "*factv1.RoutingWithdrawn key/"+key+"\n") {
			t.Errorf("key %s was not withdrawn: %v", key, c.log.since(before))
		}
	}
	// There is nothing to do any more.
	if err := drain.Run(t.Context(), drain.Config{Client: c.program(), Logger: world.Quiet}); err != nil {
		t.Error(err)
	}
}

func TestUninstallWithoutAManagerSucceedsAndIsLogged(t *testing.T) {
	const ns = "forced"
	c := ownCluster(t, ns)
	stop := c.manage(manager.Config{})
	objects := c.inhabited(ns)
	stop()
	// One of them is being deleted already, and somebody else keeps another.
	c.remove(objects[0])
	world.Edit(c.World, objects[2].(*crdv1.RoutingConfig), func(r *crdv1.RoutingConfig) { r.Finalizers = append(r.Finalizers, "example.com/theirs") })
	var told bytes.Buffer
	config := drain.Config{Client: c.program(), Wait: time.Second, Force: time.Second, Logger: slog.New(slog.NewTextHandler(&told, nil))}
	err := drain.Run(t.Context(), config)
	if err == nil || !strings.Contains(err.Error(), "RoutingConfig by-hand") || !strings.Contains(err.Error(), "--no-hooks") {
		t.Errorf("the error does not say what is left: %v", err)
	}
	if !strings.Contains(err.Error(), "RoutingConfig by-hand (held by finalizer example.com/theirs)") {
		t.Errorf("the error does not say what holds it: %v", err)
	}
	for _, line := range strings.Split(told.String(), "\n") {
		held := strings.Contains(line, "deletion requested") && strings.Contains(line, "example.com/theirs")
		if strings.Contains(line, `"RoutingConfig by-hand"`) && strings.Contains(line, "manager") && !held && !strings.Contains(line, "left=") {
			t.Errorf("it was not deleted: %s", line)
		}
	}
	for _, says := range []string{"WITHOUT IT", "Delete workflows of resources do not run", "SignadotSandbox left", "RoutingConfig left-key", "ForkedWorkload " + ns + "/left"} {
		if !strings.Contains(told.String(), says) {
			t.Errorf("it does not tell %q:\n%s", says, told.String())
		}
	}
	for _, o := range []client.Object{objects[0], objects[1], objects[3], &crdv1.RoutingConfig{ObjectMeta: named("left-key")}} {
		c.Gone(o)
	}
	world.Edit(c.World, objects[2].(*crdv1.RoutingConfig), func(r *crdv1.RoutingConfig) {
		if len(r.Finalizers) != 1 {
			t.Errorf("finalizers: %v", r.Finalizers)
		}
		r.Finalizers = nil
	})
	if err := drain.Run(t.Context(), config); err != nil {
		t.Error(err)
	}
}
