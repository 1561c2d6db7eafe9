package fork

import (
	"regexp"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork/reserved"
)

// keptKeys are the keys of labels of the baseline that stay: those that the sandbox keeps, and of
// those that the installation keeps the ones that nothing selects the baseline's pods by.
type keptKeys struct {
	sandbox, installation reserved.Filter
	reserved              map[string]string
	// names are further keys, of labels that stay unless the baseline's pods are selected by them.
	names map[string]bool
}

// keptLabels reads the expressions of a plan.
func keptLabels(live *baseline.Workload, plan Plan) (keptKeys, *Problem) {
	sandbox, p := keepLabels(plan.PreservedLabels)
	if p != nil {
		return keptKeys{}, p
	}
	installation, p := keepLabels(plan.InstallationLabels)
	return keptKeys{sandbox: sandbox, installation: installation, reserved: reserved.Keys(live, plan.Neighbours, plan.Budgets)}, p
}

// matches reports whether the key stays.
func (k keptKeys) matches(key string) bool {
	return k.sandbox.Matches(key) || k.reserved[key] == "" && (k.names[key] || k.installation.Matches(key))
}

// ofPods returns the keys of the labels of pods that stay: also those that patches wrote, though
// with the baseline's value, and those by which a pod is in a mesh.
func (k keptKeys) ofPods(written map[string]bool) keptKeys {
	k.names = lists.Merged(written)
	for _, key := range meshLabels() {
		k.names[key] = true
	}
	return k
}

// keepLabels reads the expressions. They are not anchored, as published.
func keepLabels(expressions []string) (reserved.Filter, *Problem) {
	filter := make(reserved.Filter, 0, len(expressions))
	for i, expression := range expressions {
		re, err := regexp.Compile(expression)
		if err != nil {
			return nil, problem(ReasonInvalidPreservedLabels,
				"preservedLabels[%d] is not an RE2 expression: %v", i, err)
		}
		filter = append(filter, re)
	}
	return filter, nil
}

// KeepsApart reports whether pods of a fork with these labels are not taken for those of the
// baseline.
func KeepsApart(pod map[string]string, live *baseline.Workload, plan Plan) bool {
	return guardLabels(pod, live, plan) == nil
}

// guardLabels refuses a clone if its pods would be selected as pods of the baseline: by a Service that is not
// a fork's, which would send them requests without a routing key; by a PodDisruptionBudget, which would allow
// the eviction of one more baseline pod for each pod of the fork; by the baseline itself; or by an autoscaler,
// which uses the selector of the workload that it references.
func guardLabels(pod map[string]string, live *baseline.Workload, plan Plan) *Problem {
	for i := range plan.Neighbours {
		if s := &plan.Neighbours[i]; reserved.Selects(s, pod) {
			return problem(ReasonLabelsMatchBaseline,
				"the fork of %s would keep labels by which Service %s selects it, and get requests without a key: "+
					"remove %s from preservedLabels and patches",
				live, s.Name, labels.Set(s.Spec.Selector))
		}
	}
	for i := range plan.Budgets {
		if b := &plan.Budgets[i]; counts(b, pod, live.Template.Labels, plan.Identity) {
			return problem(ReasonLabelsMatchBaseline,
				"the fork of %s would keep labels by which it counts for PodDisruptionBudget %s of its baseline: "+
					"remove one of %s from preservedLabels and patches",
				live, b.Name, metav1.FormatLabelSelector(b.Spec.Selector))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(live.Selector)
	if err != nil || selector.Empty() {
		return nil // The API server takes no such workload, so there are no pods to mix up.
	}
	if selector.Matches(labels.Set(pod)) {
		return problem(ReasonLabelsMatchBaseline,
			"the fork of %s would keep all labels (%s) by which the baseline knows its own pods: "+
				"remove one of them from preservedLabels and patches",
			live, selector)
	}
	return nil
}

// counts reports whether pods with these labels count for a budget of the baseline because
// of their labels. One that is for every pod of the namespace, or for all but some, is for forks
// as well, whichever labels they have.
func counts(b *policyv1.PodDisruptionBudget, pod, ofBaseline labels.Set, id Identity) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && selector.Matches(pod) && selector.Matches(ofBaseline) && !selector.Matches(labels.Set(id.Selector()))
}

// meshLabels are the keys of labels by which Istio decides whether a pod is in the mesh, and in
// which revision of it. A fork is in the mesh as its baseline is, so its pods keep them.
func meshLabels() []string {
	return []string{"sidecar.istio.io/inject", "istio.io/rev", "istio.io/dataplane-mode"}
}
