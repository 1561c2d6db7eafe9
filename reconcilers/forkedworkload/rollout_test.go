package forkedworkload_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/services"
)

// listens adds to a pod a container with a port of this name.
func listens(p corev1.Pod, name string, port int32) corev1.Pod {
	p.Spec.Containers = []corev1.Container{{Name: "main", Ports: []corev1.ContainerPort{{Name: name, ContainerPort: port}}}}
	return p
}

// rolledOut are tests in which the baseline is rolled out: its Service knows the port as
// http, new pods have it as a name at a number, and old ones as another.
func rolledOut() []observedTest {
	rollsOut := func(name string, port int32, old ...corev1.Pod) func(w *world) {
		return func(w *world) {
			w.in.Services[0].Spec.Ports[0].TargetPort = intstr.FromString("http")
			w.in.Baseline.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: name, ContainerPort: port}}
			w.in.Pods = old
		}
	}
	mapped := func(o *factv1.WorkloadObserved) any {
		out := []uint32{}
		for _, s := range o.Services {
			for _, p := range s.Ports {
				out = append(out, p.Port, p.WorkloadPort)
			}
		}
		return out
	}
	ended, forked := listens(pod("ended"), "http", 7070), listens(pod("forked"), "http", 7070)
	ended.Status.Phase = corev1.PodSucceeded
	forked.Labels = map[string]string{"app": "a", "signadot.com/forked-workload": "x"}
	ending := listens(pod("ending"), "http", 8080)
	ending.DeletionTimestamp = &now
	canary := pod("canary")
	canary.Labels = map[string]string{"app": "a", "track": "old"}
	relabelled := func(w *world) { w.in.Services[0].Spec.Selector = map[string]string{"app": "a", "track": "old"} }
	return []observedTest{
		{"a name that new pods do not have stays mapped for old ones", rollsOut("web", 8080, listens(pod("old"), "http", 8080)), mapped, []uint32{80, 8080}},
		{"so it does for one that is being deleted", rollsOut("web", 8080, ending), mapped, []uint32{80, 8080}},
		{"a name that has moved is mapped to where it was and to where it is", rollsOut("http", 9090, listens(pod("old"), "http", 8080)), mapped, []uint32{80, 8080, 80, 9090}},
		{"pods of one form are mapped once", rollsOut("http", 8080, listens(pod("a"), "http", 8080), listens(pod("b"), "http", 8080)), mapped, []uint32{80, 8080}},
		{"pods that get no requests do not count", rollsOut("http", 8080, ended, forked), mapped, []uint32{80, 8080}},
		{"a Service that leads to old pods alone stays", func(w *world) { relabelled(w); w.in.Pods = []corev1.Pod{canary} }, mapped, []uint32{80, 8080}},
		{"and goes with them", relabelled, mapped, []uint32{}},
	}
}

// Where no container of the fork has the name, its Service has the port all the same, and
// nobody behind it.
func TestAPortThatOnlyOldPodsHaveLeadsToTheForkAndFails(t *testing.T) {
	w := newWorld()
	rolledOut()[0].change(w)
	m := services.Of(baseline.Forms{Template: w.in.Baseline.Template, Pods: w.in.Pods}, w.in.Baseline.Template.Spec, w.in.Services, fork.Identity{SandboxName: "sb"})[0]
	if len(m.Missing) != 1 || m.Service == nil || m.Service.Spec.Ports[0].TargetPort != intstr.FromString("http") {
		t.Errorf("%+v", m)
	}
}
