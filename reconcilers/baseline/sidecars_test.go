package baseline_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/sidecars/coverage"
	"switchyard.dev/sidecars/devmesh"
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
			f := baseline.Sidecars(baseline.OfDeployment(d), tt.pods, nil, coverage.Images{})
			if string(f.Status) != tt.status || f.Reason != tt.reason || !strings.Contains(f.Message, tt.says) {
				t.Errorf("%+v", f)
			}
		})
	}
}
