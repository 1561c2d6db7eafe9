package manager_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/atrest"
	"switchyard.dev/reconcilers/drain"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/tests/world"
)

// install makes what tells an installation from the one before, as the chart does, and
// runs a manager of it on a log of its own.
func (c *cluster) install() (stop func()) {
	c.Helper()
	marker := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: publish.EpochConfigMap, Namespace: c.operator()}}
	c.Must(client.IgnoreNotFound(c.Client.Delete(c.Context(), marker.DeepCopy())))
	c.Create(marker)
	c.log = newFacts()
	return c.manage(manager.Config{})
}

// keeping is how an uninstallation drains that leaves people's objects.
func (c *cluster) keeping(told *bytes.Buffer) drain.Config {
	return drain.Config{Client: c.program(), Wait: patience, Keep: true, Namespace: c.operator(), Logger: slog.New(slog.NewTextHandler(told, nil))}
}

// kept waits until the objects that people made are there, free, and say that nobody acts
// on them, and fails unless all else of ours is gone.
func (c *cluster) kept(ns string, objects []client.Object) {
	c.Helper()
	for _, o := range objects {
		if err := c.Look(o); err != nil {
			c.Errorf("it did not stay: %v", err)
			continue
		}
		if o.GetDeletionTimestamp() != nil || len(o.GetFinalizers()) > 0 {
			c.Errorf("%T %s: deleted %v, finalizers %v", o, o.GetName(), o.GetDeletionTimestamp(), o.GetFinalizers())
		}
		c.Condition(o, crdv1.ConditionReady, "False", drain.ReasonUninstalled)
	}
	c.Gone(&crdv1.RoutingConfig{ObjectMeta: named("left-key")})
	c.Gone(&crdv1.RoutingConfig{ObjectMeta: named("left-group")})
	if all := c.forks(ns); len(all) != 1 || all[0].Name != "by-hand" {
		c.Errorf("ForkedWorkloads are left: %v", all)
	}
	if left := c.madeBy(ns); len(left) > 0 {
		c.Errorf("these are left: %v", left)
	}
}

// madeBy names the objects of the namespace that have a controller of ours.
func (c *cluster) madeBy(ns string) (out []string) {
	c.Helper()
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}} {
		c.List(list, client.InNamespace(ns))
		err := meta.EachListItem(list, func(o runtime.Object) error {
			made, ok := o.(client.Object)
			if !ok {
				return fmt.Errorf("%T is no object", o)
			}
			if maker := metav1.GetControllerOf(made); maker != nil && made.GetDeletionTimestamp() == nil {
				out = append(out, fmt.Sprintf("%T %s of %s", o, made.GetName(), maker.Kind))
			}
			return nil
		})
		c.Must(err)
	}
	return out
}

// comesBack waits until what people made is served again.
func (c *cluster) comesBack(ns string, objects []client.Object) {
	c.Helper()
	c.Available(c.forkFor(ns, "left-key"))
	c.Condition(objects[0], crdv1.ConditionReady, "True", "Ready")
	c.reaches(ns, "left-group", "left one")
	c.Condition(objects[2], "Published", "True", "Published")
	fork := objects[3].(*crdv1.ForkedWorkload)
	c.Eventually("the fork made by hand is there", func() error {
		if err := c.Look(fork); err != nil || fork.Status.Fork == nil {
			return fmt.Errorf("it has none: %w", err)
		}
		return c.Client.Get(c.Context(), client.ObjectKey{Namespace: ns, Name: fork.Status.Fork.ObjectRef.Name}, &appsv1.Deployment{})
	})
}

func TestObjectsOfUsersSurviveUninstallation(t *testing.T) {
	t.Parallel()
	const ns = "kept"
	c := ownCluster(t, ns)
	stop := c.install()
	objects := c.inhabited(ns)
	c.served(ns, "a")
	external := c.external(ns, "by-hand", "")
	c.Eventually("the external workload has a Service", func() error {
		if made := c.madeBy(ns); !strings.Contains(strings.Join(made, "\n"), crdv1.KindExternalWorkload) {
			return fmt.Errorf("there are %v", made)
		}
		return nil
	})
	before := c.log.count()
	var told bytes.Buffer
	if err := drain.Run(t.Context(), c.keeping(&told)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(told.String(), "level=WARN") || !strings.Contains(told.String(), "SignadotSandbox left") {
		t.Errorf("something was forced, or it does not say what stays:\n%s", told.String())
	}
	c.kept(ns, append(objects, external))
	for _, key := range []string{"left-key", "left-group", "by-hand"} {
		if !strings.Contains(strings.Join(c.log.since(before), "\n")+"\n", "*factv1.RoutingWithdrawn key/"+key+"\n") {
			t.Errorf("key %s was not withdrawn: %v", key, c.log.since(before))
		}
	}
	// The manager goes a little later, and leaves it so.
	time.Sleep(500 * time.Millisecond)
	c.kept(ns, append(objects, external))
	stop()
	c.install()
	c.comesBack(ns, objects)
}

func TestWithoutAManagerWhatPeopleMadeStaysAndIsFree(t *testing.T) {
	t.Parallel()
	const ns = "keptforced"
	c := ownCluster(t, ns)
	stop := c.install()
	objects := c.inhabited(ns)
	// Somebody else holds what is being deleted: that is nobody's business here.
	going := c.group("going", "going-group")
	world.Edit(c.World, going, func(g *crdv1.SignadotRouteGroup) { g.Finalizers = append(g.Finalizers, "example.com/theirs") })
	c.remove(going)
	stop()
	var told bytes.Buffer
	config := c.keeping(&told)
	config.Wait = time.Second
	if err := drain.Run(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"WITHOUT IT", "the operator's finalizers were removed", "RoutingConfig left-key", "ForkedWorkload " + ns + "/left"} {
		if !strings.Contains(told.String(), says) {
			t.Errorf("it does not tell %q:\n%s", says, told.String())
		}
	}
	c.kept(ns, objects)
	world.Edit(c.World, going, func(g *crdv1.SignadotRouteGroup) { g.Finalizers = nil })
	c.Gone(going)
	c.remove(objects[1])
	c.Gone(objects[1])
	c.group("left", "left-group", "left")
	c.install()
	c.comesBack(ns, objects)
}

func TestFailedDrainDoesNotStopTheOperator(t *testing.T) {
	t.Parallel()
	const ns = "roused"
	c := ownCluster(t, ns)
	c.install()
	objects := c.inhabited(ns)
	config := &crdv1.RoutingConfig{ObjectMeta: named("left-key")}
	world.Edit(c.World, config, func(r *crdv1.RoutingConfig) { r.Finalizers = append(r.Finalizers, "example.com/theirs") })
	var told bytes.Buffer
	draining := c.keeping(&told)
	draining.Wait = 3 * time.Second
	err := drain.Run(t.Context(), draining)
	if err == nil || !strings.Contains(err.Error(), "RoutingConfig left-key (held by finalizer example.com/theirs)") {
		t.Errorf("the error does not say what holds it: %v", err)
	}
	world.Edit(c.World, config, func(r *crdv1.RoutingConfig) { r.Finalizers = nil })
	c.comesBack(ns, objects)
	for _, o := range objects {
		if o.GetAnnotations()[atrest.Annotation] != "" {
			t.Errorf("%T %s is still to rest", o, o.GetName())
		}
	}
}
