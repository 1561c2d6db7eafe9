package fork_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	livebaseline "switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
)

// TestLabelsOfTheInstallationGiveAForkNoBaselineTraffic keeps random labels in random forks by the
// value of the installation. No fork is refused for it, and none has a label by which a Service,
// a budget or the ReplicaSet of the baseline selects.
func TestLabelsOfTheInstallationGiveAForkNoBaselineTraffic(t *testing.T) {
	keys := []string{"app", "team", "tier", "version"}
	kept := 0
	rapid.Check(t, func(t *rapid.T) {
		some := func(what string) map[string]string {
			return rapid.MapOfN(rapid.SampledFrom(keys), rapid.SampledFrom([]string{"a", "b"}), 0, 3).Draw(t, what)
		}
		pod := some("labels of the pods")
		pod["app"] = "a"
		own := map[string]string{"app": "a"}
		if value, has := pod["version"]; has && rapid.Bool().Draw(t, "selects by version") {
			own["version"] = value
		}
		live := livebaseline.OfDeployment(&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", UID: "u"},
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: own}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "a:1"}}},
			}},
		})
		plan := fork.Plan{Identity: fork.Identity{ForkedWorkload: "f", Namespace: "ns", Baseline: live.Ref, SandboxName: "sb"},
			InstallationLabels: rapid.SliceOfN(rapid.SampledFrom([]string{".", "^app$", "^te", "version|tier"}), 1, 3).Draw(t, "expressions")}
		for range rapid.IntRange(0, 3).Draw(t, "Services") {
			plan.Neighbours = append(plan.Neighbours, corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Selector: some("selector")}})
		}
		if rapid.Bool().Draw(t, "has a budget") {
			plan.Budgets = []policyv1.PodDisruptionBudget{{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: some("budget")}}}}
		}
		clone, problem := fork.Clone(live, plan)
		if problem != nil {
			t.Fatalf("the value refuses a fork: %+v", problem)
		}
		has := clone.Template.Labels
		for key := range pod {
			if _, is := has[key]; !is {
				continue
			}
			kept++
			if _, selected := own[key]; selected {
				t.Fatalf("the fork has label %s of the ReplicaSet's selector: %v", key, has)
			}
			for _, s := range plan.Neighbours {
				if _, selected := s.Spec.Selector[key]; selected && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod)) {
					t.Fatalf("the fork has label %s, by which Service %v selects the baseline: %v", key, s.Spec.Selector, has)
				}
			}
		}
		for _, s := range plan.Neighbours {
			if len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(has)) && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod)) {
				t.Fatalf("Service %v of the baseline routes to the fork: %v", s.Spec.Selector, has)
			}
		}
	})
	if kept == 0 {
		t.Error("no label was ever kept")
	}
}
