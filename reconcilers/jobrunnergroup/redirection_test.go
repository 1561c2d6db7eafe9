package jobrunnergroup

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A pod that gets the proxy of a mesh redirects nothing.
func TestContainersThatAWebhookAdds(t *testing.T) {
	set := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "init"}}, Containers: []corev1.Container{{Name: "main"}}}}
	if got := added(set, set.DeepCopy()); got != "" {
		t.Errorf("none: %s", got)
	}
	for name, add := range map[string]func(*corev1.PodSpec){
		"istio-init": func(s *corev1.PodSpec) {
			s.InitContainers = append(s.InitContainers, corev1.Container{Name: "istio-init"})
		},
		"istio-proxy": func(s *corev1.PodSpec) { s.Containers = append(s.Containers, corev1.Container{Name: "istio-proxy"}) },
	} {
		pod := set.DeepCopy()
		if add(&pod.Spec); added(set, pod) != name {
			t.Errorf("%s: %s", name, added(set, pod))
		}
	}
}
