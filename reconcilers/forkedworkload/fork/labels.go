package fork

import (
	"regexp"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// keyFilter says which label keys of the baseline stay.
type keyFilter []*regexp.Regexp

// keepLabels reads the expressions. They are not anchored, as published.
func keepLabels(expressions []string) (keyFilter, *Problem) {
	filter := make(keyFilter, 0, len(expressions))
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

// matches says whether the key stays.
func (f keyFilter) matches(key string) bool {
	for _, re := range f {
		if re.MatchString(key) {
			return true
		}
	}
	return false
}

// guardLabels refuses a clone whose pods would get requests that are not for
// it: by a Service that is not a fork's, or by counting as pods of the baseline.
func guardLabels(clone, baseline *appsv1.Deployment, plan Plan) *Problem {
	pod := labels.Set(clone.Spec.Template.Labels)
	for i := range plan.Neighbours {
		s := &plan.Neighbours[i]
		if len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(pod) {
			return problem(ReasonLabelsMatchBaseline,
				"the fork of Deployment %s/%s would keep labels by which Service %s selects it, and get requests without a key: "+
					"remove %s from preservedLabels and patches",
				baseline.Namespace, baseline.Name, s.Name, labels.Set(s.Spec.Selector))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(baseline.Spec.Selector)
	if err != nil || selector.Empty() {
		return nil // The API server takes no such Deployment, so there are no pods to mix up.
	}
	if selector.Matches(pod) {
		return problem(ReasonLabelsMatchBaseline,
			"the fork of Deployment %s/%s would keep all labels (%s) by which the baseline knows its own pods: "+
				"remove one of them from preservedLabels and patches",
			baseline.Namespace, baseline.Name, selector)
	}
	return nil
}
