package rollouts_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/tests/world"
)

// TestRolloutsComeAndGo lives through everything with one manager that is never
// restarted: no kind Rollout, the kind with Argo's controller, and no kind again.
func TestRolloutsComeAndGo(t *testing.T) {
	c := start(t)
	w := c.fork("of-rollout", "shop")
	c.Says(c.Condition(w, crdv1.ConditionReady, "False", "BaselineNotFound"), "Rollout argo/shop does not exist")
	if asked := c.asked.of("rollouts"); asked > 0 {
		t.Errorf("the API server was asked about Rollouts %d times, though it has no such kind", asked)
	}

	c.installArgo()
	c.create(shop)
	c.create(shopServices)
	c.Eventually("Argo has brought the baseline up", func() error { return c.healthy("shop") })
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
	c.checkFork(w)

	t.Run("a change of the baseline arrives in the fork, without the steps of the baseline", func(t *testing.T) { c.follows(w) })
	t.Run("a fork that cannot start says why", func(t *testing.T) { c.tells() })
	t.Run("a Rollout that takes its pods from a Deployment is forked, and the Deployment left alone", func(t *testing.T) { c.refers() })
	t.Run("the fork goes with its object", func(t *testing.T) { c.goes(w) })
	t.Run("the kind goes, and comes again", func(t *testing.T) { c.comesAgain() })
}

// checkFork compares the fork with its baseline.
func (c *cluster) checkFork(w *crdv1.ForkedWorkload) {
	c.Helper()
	ref := w.Status.Fork.ObjectRef
	if ref.Kind != "Rollout" || ref.APIVersion != "argoproj.io/v1alpha1" || ref.Namespace != namespace {
		c.Errorf("fork: %+v", ref)
	}
	if b := w.Status.Baseline; b == nil || b.WorkloadID != string(c.rollout("shop").GetUID()) {
		c.Errorf("baseline: %+v", b)
	}
	fork := c.rollout(ref.Name)
	steps, found, _ := unstructured.NestedSlice(fork.Object, "spec", "strategy", "canary", "steps")
	if found || len(steps) > 0 {
		c.Errorf("the fork has the steps of its baseline: %v", steps)
	}
	fact, ok := c.log.fact(w).(*factv1.WorkloadObserved)
	if !ok || fact.Baseline.Kind != "ArgoRollout" || !fact.Ready || len(fact.Services) != 2 {
		c.Fatalf("stated: %v", fact)
	}
	// Argo has put a hash into the selector of the stable Service, and none into ours.
	var service corev1.Service
	c.get(&service, fact.Services[0].To)
	if _, hashed := service.Spec.Selector[inject.RolloutHash]; hashed || len(service.Spec.Selector) != 1 {
		c.Errorf("%s selects %v", service.Name, service.Spec.Selector)
	}
}

// follows changes the baseline, whose own new form waits for a person.
func (c *cluster) follows(w *crdv1.ForkedWorkload) {
	world.Edit(c.World, c.rollout("shop"), func(u *unstructured.Unstructured) { setImage(u, "shop:2") })
	c.Eventually("the fork has the new image and serves", func() error {
		fork := c.rollout(w.Status.Fork.ObjectRef.Name)
		if image := imageOf(fork); image != "shop:2" {
			return fmt.Errorf("the fork has %s", image)
		}
		return c.healthy(fork.GetName())
	})
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
	c.Eventually("the baseline waits at its step", func() error {
		if phase, _, _ := unstructured.NestedString(c.rollout("shop").Object, "status", "phase"); phase != "Paused" {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
}

// tells has the kubelet say that an image cannot be pulled.
func (c *cluster) tells() {
	w := c.fork("broken", "shop", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"shop:broken"}]}}}}`)
	c.Says(c.Condition(w, crdv1.ConditionForkAvailable, "False", forkedworkload.ReasonImagePull),
		"Rollout argo/", "container main", "not found")
	if r := crdv1.FindCondition(w.Status.Conditions, crdv1.ConditionReady); r.Reason != forkedworkload.ReasonImagePull {
		c.Errorf("Ready is %+v", r)
	}
}

// refers forks a Rollout with a workloadRef.
func (c *cluster) refers() {
	c.create(referring)
	c.Eventually("Argo has brought the referring Rollout up", func() error { return c.healthy("referring") })
	w := c.fork("of-referring", "referring")
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
	fork := c.rollout(w.Status.Fork.ObjectRef.Name)
	if _, has := fork.Object["spec"].(map[string]any)["workloadRef"]; has || imageOf(fork) != "referred:1" {
		c.Errorf("the fork: %v", fork.Object["spec"])
	}
	world.Edit(c.World, c.deployment("referred"), func(u *unstructured.Unstructured) { setImage(u, "referred:2") })
	c.Eventually("the fork follows the Deployment that its baseline refers to", func() error {
		if image := imageOf(c.rollout(w.Status.Fork.ObjectRef.Name)); image != "referred:2" {
			return fmt.Errorf("it has %s", image)
		}
		return nil
	})
}

// goes deletes a fork.
func (c *cluster) goes(w *crdv1.ForkedWorkload) {
	fork := c.rollout(w.Status.Fork.ObjectRef.Name)
	c.Remove(w)
	c.Gone(fork)
	c.Eventually("it is withdrawn", func() error {
		if _, ok := c.log.fact(w).(*factv1.WorkloadWithdrawn); !ok {
			return errors.New("it is not")
		}
		return nil
	})
}

// comesAgain removes the kind and installs it anew.
func (c *cluster) comesAgain() {
	w := c.fork("again", "shop")
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
	c.removeArgo()
	c.Says(c.Condition(w, crdv1.ConditionReady, "False", "BaselineNotFound"), "Rollout argo/shop does not exist")
	c.calm()
	before := c.asked.of("rollouts")
	world.Edit(c.World, w, func(o *crdv1.ForkedWorkload) { o.Annotations = map[string]string{"looked": "at"} })
	c.calm()
	if after := c.asked.of("rollouts"); after != before {
		c.Errorf("the API server was asked about Rollouts %d times after the kind had gone", after-before)
	}
	if said := c.output.Lines("level=ERROR"); len(said) > 0 {
		c.Errorf("errors were logged:\n%s", strings.Join(said, "\n"))
	}
	c.installArgo()
	c.create(shop)
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
}
