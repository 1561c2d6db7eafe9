package baseline_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
)

// withSidecar is a pod in a phase, whose sidecar is ready or not.
func withSidecar(name string, phase corev1.PodPhase, ready bool) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.PodSpec{InitContainers: []corev1.Container{{Name: devmesh.ContainerName}}},
		Status:     corev1.PodStatus{Phase: phase, InitContainerStatuses: []corev1.ContainerStatus{{Name: devmesh.ContainerName, Ready: ready}}},
	}
}

func TestPodsThatStartAreNotWaitedFor(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	d.Spec.Template.Annotations = map[string]string{crdv1.AnnotationInject: "true"}
	serves := withSidecar("serves", corev1.PodRunning, true)
	starts := withSidecar("starts", corev1.PodPending, false)
	plain := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "plain"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	tests := []struct {
		name           string
		pods           []corev1.Pod
		status, reason string
		says           string
	}{
		{"a pod that starts changes nothing", []corev1.Pod{serves, starts}, "True", "SidecarsReady", "Every pod of shop/cart has a ready DevMesh Sidecar."},
		{"it is the same as without it", []corev1.Pod{serves}, "True", "SidecarsReady", "Every pod of shop/cart has a ready DevMesh Sidecar."},
		{"when all start, none has started", []corev1.Pod{starts}, "True", "NoPods", "no pods that have started"},
		{"one that runs and whose sidecar is not ready is named, one that starts is not",
			[]corev1.Pod{serves, starts, withSidecar("broken", corev1.PodRunning, false)}, "False", "SidecarNotReady", "1 of 3 pods (broken)"},
		{"one that will start without a sidecar is named at once", []corev1.Pod{serves, plain}, "False", "SidecarAbsent", "plain"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, present := baseline.Sidecars(baseline.OfDeployment(d), tt.pods, []crdv1.ServiceMapping{{From: "cart"}}, inject.Settings{})
			if present != (tt.status == "True") {
				t.Errorf("present is %t", present)
			}
			if string(f.Status) != tt.status || f.Reason != tt.reason || !strings.Contains(f.Message, tt.says) {
				t.Errorf("%+v", f)
			}
		})
	}
}

// The published demonstrations of message consumers (the driver of HotROD, the consumers of
// the Kafka and Pub/Sub ones) have no Service and no annotation that asks for a sidecar: no
// request comes to them, and they ask the route server which keys are their own.
func TestABaselineWithoutServicesNeedsNoSidecar(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "consumer"}}
	plain := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "plain"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	unknown := baseline.OfDeployment(d)
	unknown.Problem = "its Deployment does not exist"
	for name, tt := range map[string]struct {
		workload *baseline.Workload
		pods     []corev1.Pod
		services []crdv1.ServiceMapping
		status   string
		reason   string
		present  bool
	}{
		"without a sidecar":              {baseline.OfDeployment(d), []corev1.Pod{plain}, nil, "True", "NoService", false},
		"without pods":                   {baseline.OfDeployment(d), nil, nil, "True", "NoService", false},
		"with one that is not ready":     {baseline.OfDeployment(d), []corev1.Pod{withSidecar("p", corev1.PodRunning, false)}, nil, "True", "NoService", false},
		"with one that is ready":         {baseline.OfDeployment(d), []corev1.Pod{withSidecar("p", corev1.PodRunning, true)}, nil, "True", "NoService", true},
		"a Service leads to it":          {baseline.OfDeployment(d), []corev1.Pod{plain}, []crdv1.ServiceMapping{{From: "s"}}, "False", "SidecarAbsent", false},
		"nobody knows what its pods are": {unknown, nil, nil, "False", "SidecarAbsent", false},
		"it is not there":                {nil, nil, nil, "Unknown", "BaselineNotFound", false},
	} {
		t.Run(name, func(t *testing.T) {
			f, present := baseline.Sidecars(tt.workload, tt.pods, tt.services, inject.Settings{})
			if string(f.Status) != tt.status || f.Reason != tt.reason || present != tt.present {
				t.Errorf("present: %t, %+v", present, f)
			}
			if tt.reason == "NoService" && !strings.Contains(f.Message,
				"No Service selects Deployment shop/consumer, so no request reaches its fork, and it needs no DevMesh sidecar (a consumer of messages asks the route server itself)") {
				t.Error(f.Message)
			}
		})
	}
}
