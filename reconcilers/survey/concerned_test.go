package survey

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/sidecars/inject"
)

func deployment(name, asks string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	d.Spec.Template.Labels = map[string]string{"app": name}
	if asks != "" {
		d.Spec.Template.Annotations = map[string]string{inject.AnnotationInject: asks}
	}
	return d
}

// The metric and the command find the same workloads, but for the label of a namespace, which only the
// command reads.
func TestWorkloadsThatAreConcerned(t *testing.T) {
	fork := crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
	fork.Spec.Baseline = crdv1.ObjectRef{Kind: "Deployment", Namespace: "shop", Name: "forked"}
	for name, namespaces := range map[string]map[string]bool{"metric": nil, "command": {"shop": true}} {
		k := concerning([]crdv1.ForkedWorkload{fork})
		k.namespaces = namespaces
		for _, d := range []*appsv1.Deployment{deployment("asks", "true"), deployment("refuses", "false"), deployment("plain", ""), deployment("forked", "")} {
			k.deployment(d)
		}
		for workload, want := range map[string][2]bool{
			"asks": {true, true}, "refuses": {false, false}, "plain": {namespaces != nil, namespaces != nil}, "forked": {true, namespaces != nil},
		} {
			asks, concerned := k.asks[workloadOf(baseline.KindDeployment, "shop", workload)]
			if concerned != want[0] || asks != want[1] {
				t.Errorf("%s: %s is concerned %t, asks %t; want %v", name, workload, concerned, asks, want)
			}
		}
	}
}

// A Rollout that could not be read has no labels that a Service could select. Without pods it must not
// count as covered.
func TestAServiceCanSelectARolloutWithoutPods(t *testing.T) {
	k := concerning(nil)
	k.deployment(deployment("cart", ""))
	k.deployment(deployment("consumer", ""))
	needed := k.needed(baseline.NewPaths([]corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "cart"}}}}, nil), nil)
	rollout := workloadOf(baseline.KindRollout, "shop", "cart")
	of := func(app string) []*corev1.Pod {
		return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": app}}}}
	}
	for name, tt := range map[string]struct {
		workload inject.Workload
		pods     []*corev1.Pod
		want     bool
	}{
		"a Rollout without pods":                       {rollout, nil, true},
		"a Rollout whose pods a Service selects":       {rollout, of("cart"), true},
		"a Rollout whose pods no Service selects":      {rollout, of("consumer"), false},
		"a Deployment without pods":                    {workloadOf(baseline.KindDeployment, "shop", "cart"), nil, true},
		"a Deployment without pods that none leads to": {workloadOf(baseline.KindDeployment, "shop", "consumer"), nil, false},
	} {
		if got := needed(tt.workload, tt.pods); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}
