package manager_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/tests/world"
)

// engineFinalizer is what the engine of these tests, the test itself, puts on a
// Resource before its first effect.
const engineFinalizer = "tests.switchyard.dev/engine"

// resource waits for the Resource of a resource of a sandbox.
func (c *cluster) resource(sandbox, name string) *crdv1.Resource {
	c.Helper()
	var found *crdv1.Resource
	c.Eventually("a Resource is made for "+name, func() error {
		var list crdv1.ResourceList
		if err := c.Client.List(c.Context(), &list, client.MatchingLabels{crdv1.LabelSandbox: sandbox}); err != nil {
			return err
		}
		for i := range list.Items {
			if list.Items[i].Spec.Name == name {
				found = &list.Items[i]
				return nil
			}
		}
		return fmt.Errorf("it is none of %d", len(list.Items))
	})
	return found
}

// makes is the engine that has run the create workflow of a Resource.
func (c *cluster) makes(r *crdv1.Resource) {
	c.Helper()
	world.Edit(c.World, r, func(r *crdv1.Resource) { r.Finalizers = []string{engineFinalizer} })
	c.reportsOf(r, "True", "Ready", "made")
}

// reportsOf is what the engine says of a Resource.
func (c *cluster) reportsOf(r *crdv1.Resource, status, reason, message string) {
	c.Helper()
	c.Eventually("the status of a Resource can be set", func() error {
		if err := c.Look(r); err != nil {
			return err
		}
		r.Status.ObservedGeneration = r.Generation
		crdv1.SetCondition(&r.Status.Conditions, metav1.Condition{
			Type: crdv1.ConditionReady, Status: metav1.ConditionStatus(status), Reason: reason, Message: message,
			ObservedGeneration: r.Generation, LastTransitionTime: metav1.Now(),
		})
		return c.Client.Status().Update(c.Context(), r)
	})
}

// forkOfBaseline waits for the ForkedWorkload of a baseline, and returns nil when there
// must be none.
func (c *cluster) forkOfBaseline(ns, baseline string) *crdv1.ForkedWorkload {
	c.Helper()
	var found *crdv1.ForkedWorkload
	c.Eventually("there is a fork of "+baseline, func() error {
		for _, w := range c.forks(ns) {
			if w.Spec.Baseline.Name == baseline && w.Status.Fork != nil {
				found = &w
				return nil
			}
		}
		return errors.New("there is none")
	})
	return found
}

// serves makes the pods of a fork ready.
func (c *cluster) serves(w *crdv1.ForkedWorkload) {
	c.Helper()
	d := deploymentNamed(w.Namespace, w.Status.Fork.ObjectRef.Name)
	c.Available(d)
}

// memberNames returns the members that the log declares for a key.
func (c *cluster) memberNames(key string) (out []string) {
	declared, ok := c.log.fact(event.RoutingKey(key)).(*factv1.RoutingDeclared)
	if !ok {
		return nil
	}
	for _, m := range declared.Members {
		out = append(out, m.Name)
	}
	return out
}

// withTemplate is the spec of a sandbox whose forks read the outputs of resources.
func withTemplate(id, ns string, resources []string, baselines ...string) string {
	var patches, made []string
	for _, b := range baselines {
		patches = append(patches, `{target: {apiVersion: apps/v1, kind: Deployment, namespace: `+ns+`, name: `+b+`}, template: `+fmt.Sprint(len(resources) > 0)+`,
  strategic: {spec: {template: {spec: {containers: [{name: main, image: "`+b+`:`+image(resources)+`"}]}}}}}`)
	}
	for _, r := range resources {
		made = append(made, `{name: `+r+`, pluginName: plugin, olm: {preStart: [{name: make, type: ExecUnit}]}}`)
	}
	return `{id: ` + id + `, managedResources: [` + strings.Join(made, ", ") + `], customization: {patches: [` + strings.Join(patches, ", ") + `]}}`
}

// image is a tag that names the objects of resources.
func image(resources []string) string {
	out := "fork"
	for _, r := range resources {
		out += `-{{ .resources.` + r + `.objectName }}`
	}
	return out
}

// becomes gives the sandbox another spec.
func (c *cluster) becomes(s *crdv1.SignadotSandbox, spec string) {
	c.Helper()
	var next crdv1.SignadotSandbox
	c.Must(unmarshal("spec: "+spec, &next))
	world.Edit(c.World, s, func(s *crdv1.SignadotSandbox) { s.Spec = next.Spec })
}

// held waits until the fork of a baseline is declared and held, and checks that nothing
// of it runs: its requests fail, and do not reach the baseline.
func (c *cluster) held(s *crdv1.SignadotSandbox, ns, baseline, why string) *crdv1.ForkedWorkload {
	c.Helper()
	var found crdv1.ForkedWorkload
	c.Eventually("the fork of "+baseline+" is declared, and held", func() error {
		for _, w := range c.forks(ns) {
			if w.Spec.Baseline.Name != baseline {
				continue
			}
			fact, ok := c.log.fact(event.Workload(crdv1.KindForkedWorkload, ns, w.Name)).(*factv1.WorkloadObserved)
			ready := crdv1.FindCondition(w.Status.Conditions, crdv1.ConditionReady)
			if !ok || fact.Ready || ready == nil || ready.Reason != "WaitsFor" || w.Annotations[crdv1.AnnotationWaitsFor] != why ||
				!slices.Contains(c.memberNames(s.Spec.ID), w.Name) {
				return fmt.Errorf("it says %+v for %q, and the log %v", ready, w.Annotations[crdv1.AnnotationWaitsFor], fact)
			}
			found = w
			return nil
		}
		return errors.New("there is none")
	})
	c.Says(c.Condition(s, crdv1.ConditionWorkloadsReady, "Unknown", "ResourcesNotReady"), why)
	c.quiet()
	var all appsv1.DeploymentList
	c.List(&all, client.InNamespace(ns), client.HasLabels{crdv1.LabelForkedWorkload})
	for _, d := range all.Items {
		if metav1.IsControlledBy(&d, &found) {
			c.Fatalf("a fork was started before its resource: %s", d.Name)
		}
	}
	return &found
}

func TestForksWaitForTheirResources(t *testing.T) {
	const ns = "res-order"
	c := start(t, ns)
	c.baseline(ns, "a", withSidecar)
	c.baseline(ns, "b", withSidecar)
	s := c.sandbox("res-order", withTemplate("res-order-key", ns, []string{"db"}, "a"))
	db := c.resource("res-order", "db")
	if !slices.Equal(db.Spec.OutputNamespaces, []string{ns}) || db.Spec.PluginName != "plugin" || len(db.Spec.OLM.PreStart) != 1 {
		t.Errorf("%+v", db.Spec)
	}
	c.Says(c.Condition(s, crdv1.ConditionResourcesReady, "Unknown", "NotSupportedYet"), `"db"`, db.Name, "this installation does not run the steps of resource plugins", "Upgrade it")
	c.Condition(s, crdv1.ConditionReady, "False", "NotSupportedYet")
	c.held(s, ns, "a", "Resource db")

	c.makes(db)
	a := c.forkOfBaseline(ns, "a")
	if told := a.Spec.ResourceTemplateData["db"]; told.ObjectName != db.Name || told.OutputKind != "Secret" {
		t.Errorf("the fork is told %+v", told)
	}
	d := deploymentNamed(ns, a.Status.Fork.ObjectRef.Name)
	c.Available(d)
	if got := d.Spec.Template.Spec.Containers[0].Image; got != "a:fork-"+db.Name {
		t.Errorf("the fork runs %s", got)
	}
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")

	// A resource and a fork are added: what runs goes on, what is new waits.
	c.becomes(s, withTemplate("res-order-key", ns, []string{"db", "cache"}, "a", "b"))
	cache := c.resource("res-order", "cache")
	c.Says(c.Condition(s, crdv1.ConditionResourcesReady, "Unknown", "NotSupportedYet"), `"cache"`)
	held := c.held(s, ns, "b", "Resources db, cache")
	if now := c.forkOfBaseline(ns, "a"); now.Generation != a.Generation || !maps.Equal(now.Annotations, a.Annotations) || len(c.memberNames("res-order-key")) != 2 {
		t.Errorf("the fork that runs was changed: %+v; held is %s; routed: %v", now.ObjectMeta, held.Name, c.memberNames("res-order-key"))
	}
	c.makes(cache)
	b := c.forkOfBaseline(ns, "b")
	c.serves(b)
	c.Eventually("the old fork is told of both", func() error {
		a = c.forkOfBaseline(ns, "a")
		if len(a.Spec.ResourceTemplateData) != 2 || a.Status.ObservedGeneration != a.Generation {
			return fmt.Errorf("%v", a.Spec.ResourceTemplateData)
		}
		return nil
	})
	c.serves(a)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")

	// One is not named any more: it goes when the new pods of the forks are there.
	c.becomes(s, withTemplate("res-order-key", ns, []string{"db"}, "a", "b"))
	c.Eventually("the forks are told", func() error {
		for _, w := range c.forks(ns) {
			if len(w.Spec.ResourceTemplateData) != 1 || w.Status.ObservedGeneration != w.Generation {
				return fmt.Errorf("%s: %v", w.Name, w.Spec.ResourceTemplateData)
			}
		}
		return nil
	})
	c.Says(c.Condition(s, crdv1.ConditionResourcesReady, "True", "ResourcesReady"), `Resource "cache"`, "is deleted once ForkedWorkload")
	if err := c.Look(cache); err != nil || cache.DeletionTimestamp != nil {
		t.Errorf("a resource goes while pods of forks use it: %v, %v", cache.DeletionTimestamp, err)
	}
	c.serves(a)
	c.serves(b)
	c.Eventually("it is to go", func() error {
		err := c.Client.Get(c.Context(), client.ObjectKeyFromObject(cache), cache)
		if err == nil && cache.DeletionTimestamp == nil {
			return errors.New("it stays")
		}
		return err
	})
	world.Edit(c.World, cache, func(r *crdv1.Resource) { r.Finalizers = nil })
	c.Gone(cache)
	c.goes(s, db, ns)
}

// goes deletes a sandbox and checks the order in which its parts go, as the API server
// saw it. The engine keeps its Resource meanwhile.
func (c *cluster) goes(s *crdv1.SignadotSandbox, r *crdv1.Resource, ns string) {
	c.Helper()
	before := len(c.wrote())
	c.remove(s)
	c.Eventually("the sandbox waits for its resource", func() error {
		if err := c.Look(s); err != nil {
			return err
		}
		ready := crdv1.FindCondition(s.Status.Conditions, crdv1.ConditionReady)
		if ready.Reason != "Deleting" || !strings.Contains(ready.Message, `Resource "db"`) || !strings.Contains(ready.Message, engineFinalizer) {
			return fmt.Errorf("%+v", *ready)
		}
		if s.Status.ObservedGeneration != s.Generation {
			return fmt.Errorf("its status is of generation %d, and it is at %d", s.Status.ObservedGeneration, s.Generation)
		}
		return nil
	})
	var order []string
	for _, w := range c.wrote()[before:] {
		for _, kind := range []string{"routingconfigs", "forkedworkloads", "resources"} {
			if strings.HasPrefix(w, "DELETE ") && strings.Contains(w, "/"+kind+"/") && !slices.Contains(order, kind) {
				order = append(order, kind)
			}
		}
	}
	if !slices.Equal(order, []string{"routingconfigs", "forkedworkloads", "resources"}) {
		c.Errorf("parts go in the order %v", order)
	}
	if all := c.forks(ns); len(all) > 0 || c.log.fact(event.RoutingKey(s.Spec.ID)) == nil {
		c.Errorf("the resource is to go while %d forks are there", len(all))
	}
	world.Edit(c.World, r, func(r *crdv1.Resource) { r.Finalizers = nil })
	c.Gone(s)
	if err := c.Client.Get(c.Context(), client.ObjectKeyFromObject(r), r); !apierrors.IsNotFound(err) {
		c.Errorf("the Resource is left: %v", err)
	}
}

func TestAResourceThatFailedIsTheEndOfWaiting(t *testing.T) {
	const ns = "res-fail"
	c := start(t, ns)
	c.baseline(ns, "a", withSidecar)
	s := c.sandbox("res-fail", withTemplate("res-fail-key", ns, []string{"db"}, "a"))
	db := c.resource("res-fail", "db")
	c.reportsOf(db, "False", "Creating", "unit make runs")
	c.Says(c.Condition(s, crdv1.ConditionReady, "False", "ResourcesNotReady"), "unit make runs")
	c.reportsOf(db, "False", "ResourceFailed", "unit make ended with 1")
	c.Says(c.Condition(s, crdv1.ConditionReady, "False", "ResourceFailed"), `"db"`, "unit make ended with 1")
	if len(s.Status.ManagedResources) != 1 || !s.Status.ManagedResources[0].Failed || s.Status.ManagedResources[0].Ready ||
		s.Status.ReadyManagedResources["db"] {
		t.Errorf("%+v", s.Status)
	}
	// Another form of it is another try.
	world.Edit(c.World, s, func(s *crdv1.SignadotSandbox) { s.Spec.ManagedResources[0].PluginName = "fixed" })
	c.Condition(s, crdv1.ConditionReady, "False", "ResourcesNotReady")
	c.makes(db)
	c.forkOfBaseline(ns, "a")
	if db.Spec.PluginName != "fixed" {
		t.Errorf("the plugin is %s", db.Spec.PluginName)
	}
	world.Edit(c.World, db, func(r *crdv1.Resource) { r.Finalizers = nil })
	c.remove(s)
	c.Gone(s)
}
