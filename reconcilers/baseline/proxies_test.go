package baseline_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/sidecars/devmesh"
)

func TestWhichPodsHaveAProxyThatHasToKnow(t *testing.T) {
	cases := map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"one whose sidecar is ready":     {func(*corev1.Pod) {}, true},
		"one whose sidecar is not ready": {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = false }, true},
		"one without a sidecar":          {func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }, false},
		"one that has no node":           {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false},
		"one that has ended":             {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false},
		"one that is being deleted":      {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
				{Name: devmesh.ContainerName, Ready: true},
			}}}
			c.change(&p)
			if got := baseline.HasProxy(&p); got != c.want {
				t.Errorf("HasProxy is %t", got)
			}
		})
	}
}
