package forkedworkload_test

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/forkedworkload"
)

// waits makes the fork one that waits for a Resource.
func (w *world) waits() { w.in.Workload.Annotations[crdv1.AnnotationWaitsFor] = "Resource db" }

// unmade takes the fork away: it was never started.
func (w *world) unmade() { w.in.Fork, w.in.Forks, w.made.Fork = nil, nil, nil }

// runs makes the fork what is wanted now, as it was written, and available.
func (w *world) runs(t *testing.T) {
	t.Helper()
	want, ok := forkedworkload.Decide(w.in).Fork.(*appsv1.Deployment)
	if !ok {
		t.Fatal("there is no fork")
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(crdv1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.in.Workload.DeepCopy()).Build()
	d, err := apply.Apply(t.Context(), apply.Writer{Client: api, Live: api}, want, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Status = w.deployment().Status
	w.in.Fork, w.in.Forks, w.made.Fork = d, []fork.Object{d}, d
}

func TestAForkThatWaitsIsNotStarted(t *testing.T) {
	const says = "waits for Resource db (annotation signadot.com/waits-for of ForkedWorkload ns/sb-a-1): find out what delays it"
	named := func(w *world, baseline, patched string) {
		w.in.Services[0].Spec.Ports[0].TargetPort = intstr.FromString("http")
		main := &w.in.Baseline.Template.Spec.Containers[0]
		main.Ports = []corev1.ContainerPort{{Name: baseline, ContainerPort: 8080}}
		if patched != "" {
			w.patch(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"a:1","ports":[{"name":"` + patched + `","containerPort":8080}]}]}}}}`)
		}
	}
	resource := func(w *world) {
		w.patch(`{"spec":{"template":{"metadata":{"annotations":{"db":"{{ .resources.db.objectName }}"}}}}}`)
		w.in.Workload.Spec.Patches[0].Template = true
	}
	tests := []struct {
		name      string
		change    func(t *testing.T, w *world)
		condition string
		status    string
		reason    string
		says      string
		serves    bool
		missing   int
	}{
		{"it is not available", func(_ *testing.T, w *world) { w.unmade() }, crdv1.ConditionForkAvailable, "False", "WaitsFor", says, false, 0},
		{"nor is the member ready", func(_ *testing.T, w *world) { w.unmade() }, crdv1.ConditionReady, "False", "WaitsFor",
			"Until then requests with the key fail and do not reach the baseline.", false, 0},
		{"its Services are there", func(_ *testing.T, w *world) { w.unmade() }, crdv1.ConditionServicesReady, "True", "ServicesReady", "", false, 0},
		{"its baseline is found", func(_ *testing.T, w *world) { w.unmade() }, crdv1.ConditionBaselineFound, "True", "BaselineFound", "", false, 0},
		{"patches that will need the resource are not judged", func(_ *testing.T, w *world) { w.unmade(); resource(w) },
			crdv1.ConditionAccepted, "Unknown", "WaitsFor", "db", false, 0},
		{"and it is not ready for what it waits for", func(_ *testing.T, w *world) { w.unmade(); resource(w) },
			crdv1.ConditionReady, "False", "WaitsFor", says, false, 0},
		{"a patch that is wrong anyway is told", func(_ *testing.T, w *world) { w.unmade(); w.patch(`{"spec":1}`) },
			crdv1.ConditionReady, "False", "PatchFailed", "patch 1 of 1", false, 0},
		{"a Service that is refused is told", func(_ *testing.T, w *world) {
			w.unmade()
			w.made.Services, w.made.ServiceRefusals["a"] = nil, &apply.Refusal{Reason: apply.ReasonForbidden, Message: "quota"}
		}, crdv1.ConditionReady, "False", "Forbidden", "quota", false, 0},
		{"a baseline that does not exist is told", func(_ *testing.T, w *world) { w.remembers(); w.unmade(); w.in.Baseline = nil },
			crdv1.ConditionReady, "False", "BaselineNotFound", "create it", false, 0},
		{"a port that only the baseline names is missing", func(_ *testing.T, w *world) { w.unmade(); named(w, "http", "web") },
			crdv1.ConditionServicesReady, "True", "PortsWithoutTarget", "a 80", false, 1},
		{"a fork that runs as it was is available", func(t *testing.T, w *world) { w.runs(t); w.patch(`{"spec":{"replicas":2}}`) },
			crdv1.ConditionForkAvailable, "True", "ForkAvailable", "", true, 0},
		{"its change waits", func(t *testing.T, w *world) { w.runs(t); w.patch(`{"spec":{"replicas":2}}`) },
			crdv1.ConditionReady, "False", "WaitsFor", "Until then the fork that was made before keeps running as it is.", true, 0},
		{"ports are those of the fork that runs", func(t *testing.T, w *world) { named(w, "http", ""); w.runs(t); named(w, "http", "web") },
			crdv1.ConditionServicesReady, "True", "ServicesReady", "1.", true, 0},
		{"one that is as it is wanted waits for nothing", func(t *testing.T, w *world) { w.runs(t) }, crdv1.ConditionReady, "True", "Ready", "", true, 0},
		{"whether it serves is told truly", func(t *testing.T, w *world) {
			w.runs(t)
			w.deployment().Status.AvailableReplicas = 0
			w.patch(`{"spec":{"replicas":2}}`)
		}, crdv1.ConditionForkAvailable, "False", "ForkProgressing", "0 of 1", false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(t, w)
			w.waits()
			d := forkedworkload.Decide(w.in)
			if tt.reason != "Ready" && (d.Fork != nil || len(d.SurplusForks) > 0) {
				t.Errorf("it writes %v and deletes %v", d.Fork, d.SurplusForks)
			}
			if w.in.Baseline == nil {
				w.made.Services = d.Standing
			}
			after := forkedworkload.Conclude(w.in, d, w.made, now)
			checkCondition(t, after, tt.condition, metav1.ConditionStatus(tt.status), tt.reason, tt.says)
			fact, ok := forkedworkload.Observed(after, d, w.made)
			if !ok {
				t.Fatal("it is not stated")
			}
			o := fact.Data.(*factv1.WorkloadObserved)
			if o.Ready != tt.serves || len(o.Services) == 0 || len(o.Services[0].Ports) != 1 {
				t.Errorf("it states %v", o)
			}
			if got := after.Status.RoutingConfig.Services[0].MissingPorts; len(got) != tt.missing {
				t.Errorf("missing ports: %v", got)
			}
		})
	}
	t.Run("when nothing is in its way any more it is started", func(t *testing.T) {
		w := newWorld()
		w.unmade()
		w.in.Workload.Annotations[crdv1.AnnotationWaitsFor] = ""
		if d := forkedworkload.Decide(w.in); d.Fork == nil || d.Held != "" {
			t.Errorf("%v, %q", d.Fork, d.Held)
		}
	})
	t.Run("one of another baseline does not stay for it", func(t *testing.T) {
		w := newWorld()
		w.runs(t)
		other := w.deployment().DeepCopy()
		other.Name, w.in.Fork, w.in.Forks = "sb-other-x", nil, nil
		w.in.Forks = append(w.in.Forks, other)
		w.waits()
		d := forkedworkload.Decide(w.in)
		if d.Fork != nil || len(d.SurplusForks) != 1 {
			t.Errorf("it writes %v and deletes %v", d.Fork, d.SurplusForks)
		}
		if !strings.Contains(d.Held, "requests with the key fail") {
			t.Errorf("it says: %s", d.Held)
		}
	})
}
