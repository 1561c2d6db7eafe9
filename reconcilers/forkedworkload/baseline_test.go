package forkedworkload_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/forkedworkload"
)

// What is not known of a baseline is not stated: a fact without Services would say that
// none leads there, and requests with the key would reach the baseline in silence.
func TestAnUnknownBaselineKeepsItsFact(t *testing.T) {
	unread := func(w *world) {
		b := *w.in.Baseline
		b.Problem, b.Template = "Rollout ns/a takes its pods from Deployment x", &corev1.PodTemplateSpec{}
		w.in.Baseline = &b
	}
	// begins lets the fork begin as one that is there and told of its baseline.
	begins := func(w *world) {
		w.deployment().Annotations = map[string]string{crdv1.AnnotationBaseline: "Deployment/ns/a"}
		w.made.Services["a"].Annotations = forkedworkload.Decide(w.in).Services[0].Service.Annotations
		w.remembers()
	}
	renames := func(w *world, to string) {
		w.in.Workload = w.in.Workload.DeepCopy()
		w.in.Workload.Generation++
		w.in.Workload.Spec.Baseline.Name = to
	}
	repatches := func(w *world) {
		w.in.Workload = w.in.Workload.DeepCopy()
		w.in.Workload.Generation++
	}
	tests := []struct {
		name   string
		change func(w *world)
		// uid is that of the baseline in status and fact; empty: nothing is stated.
		uid string
	}{
		{"one whose pods are not known at first sight", unread, ""},
		{"one whose pods were known", func(w *world) { begins(w); unread(w) }, "base"},
		{"one that is gone", func(w *world) { begins(w); w.in.Baseline = nil }, "base"},
		{"one that is gone, and the patches change", func(w *world) { begins(w); w.in.Baseline = nil; repatches(w) }, "base"},
		{"one that is gone, of a fork that was never made", func(w *world) { begins(w); w.unmade(); w.in.Baseline = nil }, "base"},
		{"one that is gone, and the patches change, of a fork that was never made", func(w *world) { begins(w); w.unmade(); w.in.Baseline = nil; repatches(w) }, "base"},
		{"one whose pods were known, and the patches change, of a fork that was never made", func(w *world) { begins(w); w.unmade(); unread(w); repatches(w) }, "base"},
		{"one that is gone, and the patches change, of a fork that does not say of which", func(w *world) {
			begins(w)
			w.deployment().Annotations, w.in.Baseline = nil, nil
			repatches(w)
		}, "base"},
		{"one that is gone, and the patches change, of a Service that is not ours", func(w *world) {
			begins(w)
			w.unmade()
			w.in.Baseline, w.in.Services[1].OwnerReferences = nil, nil
			repatches(w)
		}, ""},
		{"another is named, which does not exist", func(w *world) { begins(w); w.in.Baseline = nil; renames(w, "b") }, ""},
		{"another is named, of a fork that was never made", func(w *world) { begins(w); w.unmade(); w.in.Baseline = nil; renames(w, "b") }, ""},
		{"another is named, whose pods are not known", func(w *world) { begins(w); unread(w); renames(w, "b") }, ""},
		{"another is named, which is not looked for", func(w *world) { begins(w); w.in.Baseline = nil; renames(w, "") }, ""},
		{"another that did not exist is looked at again", func(w *world) {
			begins(w)
			w.in.Baseline = nil
			renames(w, "b")
			d := forkedworkload.Decide(w.in)
			w.in.Workload = forkedworkload.Conclude(w.in, d, w.made, now)
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			d := forkedworkload.Decide(w.in)
			w.made.Services = d.Standing
			after := forkedworkload.Conclude(w.in, d, w.made, now)
			fact, ok := forkedworkload.Fact(after, d, w.made)
			if !ok {
				t.Fatal("nothing is stated, and the log keeps what it says")
			}
			var stated, told string
			if o, ok := fact.Data.(*factv1.WorkloadObserved); ok {
				stated = o.Baseline.Uid
				if len(o.Services) != 1 {
					t.Errorf("Services: %v", o.Services)
				}
			}
			if after.Status.Baseline != nil {
				told = after.Status.Baseline.WorkloadID
			}
			if stated != tt.uid || told != tt.uid || (after.Status.RoutingConfig != nil) != (tt.uid != "") {
				t.Errorf("stated %q, told %q, routing %v", stated, told, after.Status.RoutingConfig)
			}
			if len(d.SurplusForks)+len(d.Surplus) > 0 || d.Fork != nil {
				t.Errorf("it changes %+v", d)
			}
		})
	}
}
