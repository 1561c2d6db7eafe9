package externalworkload_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/externalworkload"
)

// What is not known of a baseline is not stated: a fact without Services would say that
// none leads there, and requests with the key would reach the baseline in silence.
func TestAnUnknownBaselineKeepsItsFact(t *testing.T) {
	unread := func(w *world) {
		b := *w.in.Baseline
		b.Problem, b.Template = "Rollout ns/a takes its pods from Deployment x", &corev1.PodTemplateSpec{}
		w.in.Baseline = &b
	}
	gone := func(w *world) { w.in.Baseline, w.in.Pods = nil, nil }
	// edits changes the spec, as the API server counts it.
	edits := func(w *world, change func(s *crdv1.SignadotExternalWorkloadSpec)) {
		w.in.Workload = w.in.Workload.DeepCopy()
		w.in.Workload.Generation++
		change(&w.in.Workload.Spec)
	}
	renames := func(w *world, to string) {
		edits(w, func(s *crdv1.SignadotExternalWorkloadSpec) { s.Baseline.Name = to })
	}
	alone := func(w *world) {
		w.in.Workload = w.in.Workload.DeepCopy()
		w.in.Workload.Spec.Baseline.Fake = true
	}
	tests := []struct {
		name   string
		change func(w *world)
		// uid is that of the baseline in status and fact; empty: nothing is stated, and
		// nothing leads to the workstation.
		uid string
		// cleared is how many Services of ours go.
		cleared int
	}{
		{"one whose pods are not known at first sight", unread, "", 0},
		{"one whose pods were known", func(w *world) { w.turn(); unread(w) }, "base", 0},
		{"one that is gone", func(w *world) { w.turn(); gone(w) }, "base", 0},
		{"one that is gone, and other ports are asked for", func(w *world) {
			w.turn()
			gone(w)
			edits(w, func(s *crdv1.SignadotExternalWorkloadSpec) { s.Tunnel.BaselineToLocals[0].LocalAddress = "localhost:1" })
		}, "base", 0},
		{"another is named, which does not exist", func(w *world) { w.turn(); gone(w); renames(w, "b") }, "", 1},
		{"another is named, whose pods are not known", func(w *world) { w.turn(); unread(w); renames(w, "b") }, "", 1},
		{"another is named, which is not looked for", func(w *world) { w.turn(); gone(w); renames(w, "") }, "", 1},
		{"another is named, and what was made does not say for which", func(w *world) {
			w.turn()
			delete(w.in.Services[0].Annotations, crdv1.AnnotationBaseline)
			gone(w)
			renames(w, "b")
		}, "", 1},
		{"another that did not exist is looked at again", func(w *world) { w.turn(); gone(w); renames(w, "b"); w.turn() }, "", 0},
		{"one is named where there was none", func(w *world) {
			alone(w)
			w.turn()
			gone(w)
			edits(w, func(s *crdv1.SignadotExternalWorkloadSpec) { s.Baseline.Fake = false })
		}, "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			had := len(w.in.Slices)
			d, made, after := w.turn()
			fact, ok := externalworkload.Fact(after, d, made)
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
			if len(d.Surplus) != tt.cleared {
				t.Errorf("Services that go: %v", d.Surplus)
			}
			if tt.uid == "" && (len(d.Slices) > 0 || len(d.SurplusSlices) != had) {
				t.Errorf("endpoints: %v; those that go: %v", d.Slices, d.SurplusSlices)
			}
		})
	}
}

// While a baseline is rolled out, requests reach pods of its former form as well.
func TestABaselineThatIsRolledOut(t *testing.T) {
	// old is a pod in which the name http is at this port.
	old := func(port int32) corev1.Pod {
		p := *newWorld().in.Pods[0].DeepCopy()
		p.Name = "old"
		p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port}}}}
		return p
	}
	rollsOut := func(name string, port int32, pods ...corev1.Pod) func(w *world) {
		return func(w *world) {
			w.in.Baseline.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: name, ContainerPort: port}}
			w.in.Pods = pods
		}
	}
	both := func(w *world) { w.maps(port(8080, "localhost:1"), port(9090, "localhost:2")) }
	relabelled := func(w *world) { w.in.Neighbours[0].Spec.Selector = map[string]string{"app": "a", "track": "old"} }
	canary := old(8080)
	canary.Labels = map[string]string{"app": "a", "track": "old"}
	ended := old(8080)
	ended.Status.Phase = corev1.PodSucceeded
	tests := []struct {
		name   string
		change func(w *world)
		// mapped are the ports of the baseline's Service and of its pods that are stated.
		mapped []uint32
		// leads is which of those of the pods the Service of ours stands for; 0: there is none.
		leads int32
		// says is part of what ServicesReady says.
		says string
	}{
		{"a name that new pods do not have stays mapped for old ones", rollsOut("web", 8080, old(8080)), []uint32{80, 8080}, 8080, "that have a tunnel: 1."},
		{"it is removed with them", rollsOut("web", 8080), nil, 0, "so requests to them fail: a 80"},
		{"and those that have ended get no requests", rollsOut("web", 8080, ended), nil, 0, ""},
		{"a name that has moved, of which both numbers are listed", func(w *world) { rollsOut("http", 9090, old(8080))(w); both(w) },
			[]uint32{80, 8080, 80, 9090}, 9090, "does not carry these ports, so that requests to them fail: a 80"},
		{"of which that of old pods is listed", rollsOut("http", 9090, old(8080)), []uint32{80, 8080}, 8080,
			"Requests to these ports stay at pods that listen at a number which spec.tunnel.baselineToLocals does not list: a 80."},
		{"and old pods are gone", rollsOut("http", 9090), nil, 0, "lists port 8080: no container of Deployment ns/a declares it"},
		{"of which that of new pods is listed", rollsOut("http", 8080, old(7070)), []uint32{80, 8080}, 8080, "at a number which"},
		{"pods of one form are mapped once", rollsOut("http", 8080, old(8080), old(8080)), []uint32{80, 8080}, 8080, "that have a tunnel: 1."},
		{"a Service that leads to old pods alone stays", func(w *world) { relabelled(w); w.in.Pods = []corev1.Pod{canary} }, []uint32{80, 8080}, 8080, ""},
		{"and is removed with them", relabelled, nil, 0, "No Service selects Deployment"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			d, made, after := w.turn()
			fact, ok := externalworkload.Fact(after, d, made)
			if !ok {
				t.Fatal("nothing is stated")
			}
			var mapped []uint32
			for _, s := range fact.Data.(*factv1.WorkloadObserved).Services {
				for _, p := range s.Ports {
					mapped = append(mapped, p.Port, p.WorkloadPort)
				}
			}
			if diff := cmp.Diff(tt.mapped, mapped); diff != "" {
				t.Error(diff)
			}
			var leads int32
			for _, m := range d.Services {
				if m.Service != nil && len(m.Service.Spec.Ports) == 1 {
					leads = m.Service.Spec.Ports[0].TargetPort.IntVal
				}
				if m.Service != nil && len(m.Uncarried) == 0 && slices.Contains(m.Missing, 80) {
					t.Errorf("port 80 leads to the workstation and is called missing: %+v", m)
				}
			}
			if leads != tt.leads {
				t.Errorf("the Service stands for port %d", leads)
			}
			if c := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionServicesReady); !strings.Contains(c.Message, tt.says) {
				t.Errorf("it says: %s", c.Message)
			}
		})
	}
}
