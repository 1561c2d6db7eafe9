package manager_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/world"
)

func TestNotesOnABaselineLeaveItsForkReady(t *testing.T) {
	const ns = "fw-noted"
	c := shared(t, ns)
	base := c.baseline(ns, "a", withSidecar)
	world.Edit(c.World, base, func(d *appsv1.Deployment) { d.Annotations = map[string]string{"team": "shop"} })
	w := c.forkedWorkload(ns, "mine", "a")
	_, made := c.fork(ns)
	c.Available(made)
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
	c.quiet()
	generation := made.Generation

	world.Edit(c.World, base, func(d *appsv1.Deployment) {
		d.Annotations = map[string]string{"team": "store", "control-plane.alpha.kubernetes.io/leader": "a"}
	})
	c.Eventually("the note is seen", func() error {
		if err := c.Look(w); err != nil {
			return err
		}
		return generationOf(w, base.Generation)
	})
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
	if err := c.Look(made); err != nil || made.Generation != generation {
		t.Errorf("the fork has generation %d, and had %d (%v)", made.Generation, generation, err)
	}
}

// generationOf returns what generation of its baseline a fork has seen, if it is not this one.
func generationOf(w *crdv1.ForkedWorkload, want int64) error {
	if w.Status.Baseline == nil || w.Status.Baseline.Generation != want {
		return fmt.Errorf("it has seen %+v of its baseline, not generation %d", w.Status.Baseline, want)
	}
	return nil
}
