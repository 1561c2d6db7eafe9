package forkedworkload_test

import (
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/forkedworkload"
)

// live changes the Deployment that is the baseline.
func (w *world) live(change func(d *appsv1.Deployment)) {
	d := w.in.Baseline.Object.(*appsv1.Deployment).DeepCopy()
	change(d)
	w.in.Baseline = baseline.OfDeployment(d)
}

// noted gives the baseline these annotations.
func (w *world) noted(annotations map[string]string) {
	w.live(func(d *appsv1.Deployment) { d.Annotations = annotations })
}

// A Deployment has a new generation with each change of an annotation, and until somebody
// has seen that it is not ready.
func TestNotesOnABaselineDoNotChangeItsFork(t *testing.T) {
	began := map[string]string{"team": "shop", "note": "1"}
	tests := []struct {
		name   string
		change func(w *world)
		writes bool
	}{
		{"nothing changes", func(*world) {}, false},
		{"a note is added", func(w *world) { w.noted(map[string]string{"team": "shop", "note": "1", "more": "x"}) }, false},
		{"a note is changed", func(w *world) { w.noted(map[string]string{"team": "shop", "note": "2"}) }, false},
		{"a note is removed", func(w *world) { w.noted(map[string]string{"team": "shop"}) }, false},
		{"all notes are removed", func(w *world) { w.noted(nil) }, false},
		{"a leader notes itself", func(w *world) {
			w.noted(map[string]string{"team": "shop", "note": "1", "control-plane.alpha.kubernetes.io/leader": "a"})
		}, false},
		{"the controller of Deployments notes something on the fork", func(w *world) {
			w.deployment().Annotations["deployment.kubernetes.io/revision"] = "1"
			w.noted(map[string]string{"team": "shop"})
		}, false},
		{"its image is changed as well", func(w *world) {
			w.noted(map[string]string{"team": "shop"})
			w.live(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "a:2" })
		}, true},
		{"its pods are annotated", func(w *world) {
			w.live(func(d *appsv1.Deployment) { d.Spec.Template.Annotations["x"] = "y" })
		}, true},
		{"the spec asks for a note", func(w *world) {
			w.patch(`{"metadata":{"annotations":{"note":"mine"}}}`)
			w.in.Workload.Generation++
		}, true},
		{"the spec asks for one more, and was looked at before it was written", func(w *world) {
			w.patch(`{"metadata":{"annotations":{"note":"mine"}}}`)
		}, true},
		{"the fork has another key", func(w *world) { w.in.Workload.Annotations[crdv1.AnnotationRoutingKey] = "other" }, true},
		{"somebody has taken the key off the fork", func(w *world) { delete(w.deployment().Annotations, crdv1.AnnotationRoutingKey) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.noted(maps.Clone(began))
			w.runs(t)
			w.in.Workload = forkedworkload.Conclude(w.in, forkedworkload.Decide(w.in), w.made, now)
			tt.change(w)
			d := forkedworkload.Decide(w.in)
			if writes := !apply.InLine(d.Fork, w.in.Fork); writes != tt.writes {
				t.Errorf("it writes %t: %v over %v", writes, d.Fork.GetAnnotations(), w.in.Fork.GetAnnotations())
			}
		})
	}
	t.Run("what was noted meanwhile is there with the next change", func(t *testing.T) {
		w := newWorld()
		w.noted(maps.Clone(began))
		w.runs(t)
		w.noted(map[string]string{"note": "2"})
		w.live(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "a:2" })
		if got := forkedworkload.Decide(w.in).Fork.GetAnnotations(); got["note"] != "2" || got["team"] != "" {
			t.Errorf("%v", got)
		}
	})
}
