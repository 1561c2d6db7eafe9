package manager_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/tests/world"
)

// waitsFor says what has to come before the fork of a ForkedWorkload; nothing when empty.
func (c *cluster) waitsFor(w *crdv1.ForkedWorkload, what string) {
	c.Helper()
	world.Edit(c.World, w, func(w *crdv1.ForkedWorkload) {
		w.Annotations = map[string]string{crdv1.AnnotationWaitsFor: what}
	})
}

// mapped returns the Services that the log names for a fork, and whether it serves.
func (c *cluster) mapped(ns, name string) (services int, serves bool) {
	o, ok := c.log.fact(member.Key(crdv1.KindForkedWorkload, ns, name)).(*factv1.WorkloadObserved)
	if !ok {
		return 0, false
	}
	for _, s := range o.Services {
		if s.ClusterIp != "" && len(s.Ports) == 1 {
			services++
		}
	}
	return services, o.Ready
}

func TestAForkThatWaitsHasItsServicesAndStartsWhenItIsLetGo(t *testing.T) {
	const ns = "fw-held"
	c := shared(t, ns)
	c.baseline(ns, "a", withSidecar)
	w := &crdv1.ForkedWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "mine", Annotations: map[string]string{crdv1.AnnotationWaitsFor: "Resource db"}},
		Spec:       crdv1.ForkedWorkloadSpec{Baseline: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "a"}},
	}
	c.Create(w)
	c.Says(c.Condition(w, crdv1.ConditionReady, "False", crdv1.ReasonWaitsFor), "Resource db")
	c.Condition(w, crdv1.ConditionForkAvailable, "False", crdv1.ReasonWaitsFor)
	c.Condition(w, crdv1.ConditionServicesReady, "True", "ServicesReady")
	if n, serves := c.mapped(ns, "mine"); n != 1 || serves {
		t.Errorf("stated: %d Services, ready %t", n, serves)
	}
	c.quiet()
	var all appsv1.DeploymentList
	if err := c.Client.List(c.Context(), &all, client.InNamespace(ns)); err != nil || len(all.Items) != 1 {
		t.Fatalf("there are %d Deployments: %v", len(all.Items), err)
	}

	c.waitsFor(w, "")
	_, made := c.fork(ns)
	c.Available(made)
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")

	// What runs is left as it is, and a change of it waits.
	c.waitsFor(w, "Resource cache")
	c.quiet()
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
	world.Edit(c.World, w, func(w *crdv1.ForkedWorkload) {
		w.Spec.Patches = []crdv1.Patch{{Merge: &runtime.RawExtension{Raw: []byte(`{"spec":{"replicas":2}}`)}}}
	})
	c.Says(c.Condition(w, crdv1.ConditionReady, "False", crdv1.ReasonWaitsFor), "Resource cache", "keeps running as it is")
	c.Condition(w, crdv1.ConditionForkAvailable, "True", "ForkAvailable")
	c.quiet()
	replicas := func() error {
		if err := c.Look(made); err != nil {
			return err
		}
		return fmt.Errorf("%d replicas", *made.Spec.Replicas)
	}
	if err := replicas(); err.Error() != "1 replicas" {
		t.Errorf("the fork that runs was changed: %v", err)
	}
	if n, serves := c.mapped(ns, "mine"); n != 1 || !serves {
		t.Errorf("stated: %d Services, ready %t", n, serves)
	}
	c.waitsFor(w, "")
	c.Eventually("the change is made", func() error {
		if err := replicas(); err.Error() != "2 replicas" {
			return err
		}
		return nil
	})
}
