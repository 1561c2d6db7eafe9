package forkedworkload_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/forkedworkload"
)

// Where nobody asks authors, reading what the baseline does not is a power; a fork that
// runs, such as one from before an upgrade, goes on with it.
func TestForkReadsConfigThatTheBaselineDoesNot(t *testing.T) {
	theirs := func(w *world) {
		w.deployment().Spec.Template.Spec = corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "other"}}}},
		}}}
		w.in.Fork = w.deployment()
	}
	tests := []struct {
		name    string
		change  func(w *world)
		refused bool
	}{
		{"nobody was asked", func(*world) {}, true},
		{"its author was asked", func(w *world) { w.in.AuthorsAsked = true }, false},
		{"everybody may", func(w *world) { w.in.Powers = power.Powers{power.Secrets} }, false},
		{"it runs with that", theirs, false},
		{"another one runs with that", func(w *world) {
			theirs(w)
			w.deployment().OwnerReferences[0].UID = "another"
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.in.Workload.Spec.Patches = []crdv1.Patch{patchOf("strategic",
				`{"spec":{"template":{"spec":{"containers":[{"name":"main","envFrom":[{"secretRef":{"name":"other"}}]}]}}}}`)}
			tt.change(w)
			f := forkedworkload.Decide(w.in).Conditions[crdv1.ConditionAccepted]
			if f.IsTrue() == tt.refused || tt.refused && (f.Reason != fork.ReasonPatchNotAllowed || !strings.Contains(f.Message, "[secrets]")) {
				t.Errorf("%+v", f)
			}
		})
	}
}
