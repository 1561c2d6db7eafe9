package forkedworkload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/sidecars/redirect/spec"
)

// told makes a pod with a sidecar that was told these plain and excluded ports.
func told(name, plain, except string, ready bool) corev1.Pod {
	p := pod(name)
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: devmesh.ContainerName, Ready: ready}}
	p.Spec.InitContainers = []corev1.Container{
		{Name: devmesh.InitContainerName, Env: []corev1.EnvVar{{Name: spec.EnvExcept, Value: except}}},
		{Name: devmesh.ContainerName, Env: []corev1.EnvVar{{Name: devmesh.EnvPlainPorts, Value: plain}}},
	}
	return p
}

// edge makes the pod's sidecar one that drops keys.
func edge(p corev1.Pod) corev1.Pod {
	sidecar := &p.Spec.InitContainers[1]
	sidecar.Env = append(sidecar.Env, corev1.EnvVar{Name: devmesh.EnvEdge, Value: devmesh.EdgeYes})
	return p
}

// serving makes the baseline one with these target ports behind its Service.
func serving(ports ...int32) func(*world) {
	return func(w *world) {
		var out []corev1.ServicePort
		for _, p := range ports {
			out = append(out, corev1.ServicePort{Port: p, TargetPort: intstr.FromInt32(p), Protocol: corev1.ProtocolTCP})
		}
		w.in.Services[0].Spec.Ports = out
	}
}

func annotated(name, value string) func(*world) {
	return func(w *world) { w.in.Baseline.Template.Annotations[name] = value }
}

func named(name string, port int32) func(*world) {
	return func(w *world) {
		w.in.Baseline.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: name, ContainerPort: port}}
	}
}

func TestAPortThatNoSidecarReadsIsNotCalledRouted(t *testing.T) {
	const restart = "restart them with kubectl rollout restart -n ns deployment/a"
	tests := []struct {
		name    string
		changes []func(*world)
		pods    []corev1.Pod
		status  metav1.ConditionStatus
		reason  string
		says    []string
	}{
		{"every port is read", nil, []corev1.Pod{told("p", "22,3306", "15006", true)}, "True", "SidecarsReady", nil},
		{"none is plain", nil, []corev1.Pod{told("p", "none", "", true)}, "True", "SidecarsReady", nil},
		{"the annotation makes the only one plain", []func(*world){annotated(inject.AnnotationPlainPorts, "8080")},
			[]corev1.Pod{told("p", "8080", "", true)}, "False", "PortsUnread",
			[]string{"Requests to ns/a reach the baseline whatever key they carry", "do not read port 8080, because",
				"annotation sidecar.signadot.com/plain-ports of the pod template names it: remove 8080 from it"}},
		{"its name makes it plain", []func(*world){named("nats-api", 8080)},
			[]corev1.Pod{told("p", "22,8080", "", true)}, "False", "PortsUnread",
			[]string{`the container port is named "nats-api"`, "rename it"}},
		{"it is the registered port of MySQL", []func(*world){serving(3306)},
			[]corev1.Pod{told("p", "22,3306", "", true)}, "False", "PortsUnread", []string{"port 3306, because it is the registered port"}},
		{"the annotation excludes it", []func(*world){annotated(inject.AnnotationExcludePorts, "8080")},
			[]corev1.Pod{told("p", "none", "8080,15006", true)}, "False", "PortsUnread",
			[]string{"annotation sidecar.signadot.com/exclude-ports of the pod template names it: remove 8080 from it"}},
		{"it is an edge", []func(*world){annotated(inject.AnnotationEdge, "true")},
			[]corev1.Pod{edge(told("p", "none", "", true))}, "False", "PortsUnread",
			[]string{"port 8080, because annotation sidecar.signadot.com/edge of the pod template has them drop routing keys"}},
		{"it is an edge no more, the pods are older", nil,
			[]corev1.Pod{edge(told("p", "none", "", true))}, "False", "PortsUnread", []string{restart}},
		{"the template has been mended, the pods are older", nil,
			[]corev1.Pod{told("p", "8080", "", true)}, "False", "PortsUnread", []string{restart}},
		{"the template excludes no more, the pods are older", nil,
			[]corev1.Pod{told("p", "none", "8080", true)}, "False", "PortsUnread", []string{restart}},
		{"one of two pods is older", nil,
			[]corev1.Pod{told("p", "none", "", true), told("q", "8080", "", true)}, "False", "PortsUnread", []string{"port 8080 (in 1 of 2 pods: q), because", restart}},
		{"each of two is unread", []func(*world){serving(8080, 9090), annotated(inject.AnnotationPlainPorts, "8080"), annotated(inject.AnnotationExcludePorts, "9090")},
			[]corev1.Pod{told("p", "8080", "9090", true)}, "False", "PortsUnread", []string{"port 8080, because", "; port 9090, because"}},
		{"a MySQL port beside HTTP", []func(*world){serving(8080, 3306)},
			[]corev1.Pod{told("p", "22,3306", "", true)}, "True", "SomePortsUnread",
			[]string{"Every pod of ns/a has a ready", "Some requests reach the baseline whatever key they carry, those to port 3306, because"}},
		{"it is unread, and the sidecar is not ready", nil, []corev1.Pod{told("p", "8080", "", false)}, "False", "PortsUnread", nil},
		{"some are unread, and the sidecar is not ready", []func(*world){serving(8080, 3306)},
			[]corev1.Pod{told("p", "3306", "", false)}, "False", "SidecarNotReady", nil},
		{"no Service leads to it", []func(*world){func(w *world) { w.in.Services = nil }},
			[]corev1.Pod{told("p", "8080", "", true)}, "True", "NoService", nil},
		{"a sidecar that was told nothing passes the registered ports", []func(*world){serving(3306)},
			[]corev1.Pod{told("p", "", "", true)}, "False", "PortsUnread", []string{"port 3306"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			for _, change := range tt.changes {
				change(w)
			}
			w.in.Pods = tt.pods
			after := forkedworkload.Conclude(w.in, forkedworkload.Decide(w.in), w.made, now)
			checkCondition(t, after, baseline.ConditionSidecarsReady, tt.status, tt.reason, "")
			c := crdv1.FindCondition(after.Status.Conditions, baseline.ConditionSidecarsReady)
			for _, says := range tt.says {
				if !strings.Contains(c.Message, says) {
					t.Errorf("it does not say %q: %s", says, c.Message)
				}
			}
			want := ""
			if tt.reason == baseline.ReasonSomePortsUnread || tt.reason == baseline.ReasonNoService {
				want = c.Message
			}
			if diff := cmp.Diff(want, baseline.Caveat(after)); diff != "" {
				t.Errorf("reservation: %s", diff)
			}
		})
	}
}
