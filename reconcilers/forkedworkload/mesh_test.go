package forkedworkload_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/forkedworkload"
)

// TestAForkWithoutAProxyOfTheMesh has pods with and without a proxy, while a mesh routes requests.
func TestAForkWithoutAProxyOfTheMesh(t *testing.T) {
	pod := func(phase corev1.PodPhase, containers ...string) corev1.Pod {
		p := forkPod("p")
		p.Status.Phase = phase
		for _, name := range append([]string{"main"}, containers...) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
		}
		return p
	}
	for name, tt := range map[string]struct {
		mesh    bool
		pods    []corev1.Pod
		outside bool
	}{
		"with a proxy":          {true, []corev1.Pod{pod(corev1.PodRunning, "istio-proxy")}, false},
		"without":               {true, []corev1.Pod{pod(corev1.PodRunning)}, true},
		"one of two without":    {true, []corev1.Pod{pod(corev1.PodRunning, "istio-proxy"), pod(corev1.PodRunning)}, true},
		"one that does not run": {true, []corev1.Pod{pod(corev1.PodPending)}, false},
		"no mesh":               {false, []corev1.Pod{pod(corev1.PodRunning)}, false},
		"no pods":               {true, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.in.Mesh, w.in.ForkPods = tt.mesh, tt.pods
			_, after := w.decide(w.in.Workload)
			if !tt.outside {
				if c := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionInMesh); c != nil {
					t.Errorf("it is %+v", c)
				}
				return
			}
			checkCondition(t, after, crdv1.ConditionInMesh, "False", forkedworkload.ReasonNoMeshProxy, "Pod p of the fork has no proxy of a mesh")
			checkCondition(t, after, crdv1.ConditionReady, "True", "Ready", "")
			w.in.Mesh = false
			if _, again := w.decide(after); crdv1.FindCondition(again.Status.Conditions, crdv1.ConditionInMesh) != nil {
				t.Error("the condition stays without a mesh")
			}
		})
	}
}
