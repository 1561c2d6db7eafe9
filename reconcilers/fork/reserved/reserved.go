// Package reserved finds the labels of a baseline's pods by which its Services and others select
// them. It is pure.
package reserved

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"switchyard.dev/reconcilers/baseline"
)

// Filter is expressions for keys of labels.
type Filter []*regexp.Regexp

// Matches reports whether one of the expressions is for a key.
func (f Filter) Matches(key string) bool {
	return slices.ContainsFunc(f, func(re *regexp.Regexp) bool { return re.MatchString(key) })
}

// Keys returns the keys of labels that select the pods of a baseline for its own: by one of
// these Services or budgets, or by the baseline itself. The value is the name of that object. A fork with such a
// label may be taken for a pod of the baseline. Services that a selector names no labels for, or
// that select other pods, reserve nothing.
func Keys(live *baseline.Workload, services []corev1.Service, budgets []policyv1.PodDisruptionBudget) map[string]string {
	out := map[string]string{}
	reserve := func(by string, s *metav1.LabelSelector) {
		if s == nil {
			return
		}
		for key := range s.MatchLabels {
			out[key] = by
		}
		for _, e := range s.MatchExpressions {
			out[e.Key] = by
		}
	}
	for i := range budgets {
		b := &budgets[i]
		if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && s.Matches(labels.Set(live.Template.Labels)) {
			reserve("PodDisruptionBudget "+b.Name, b.Spec.Selector)
		}
	}
	for i := range services {
		if s := &services[i]; Selects(s, live.Template.Labels) {
			reserve("Service "+s.Name, &metav1.LabelSelector{MatchLabels: baseline.ServiceSelector(s)})
		}
	}
	reserve(live.String(), live.Selector)
	return out
}

// Selects reports whether a Service selects pods with these labels, or will when Argo Rollouts
// no longer changes its selector. An ExternalName Service selects none, nor does one without a selector.
func Selects(s *corev1.Service, pod labels.Set) bool {
	wanted := baseline.ServiceSelector(s)
	return s.Spec.Type != corev1.ServiceTypeExternalName && len(wanted) > 0 && labels.SelectorFromSet(wanted).Matches(pod)
}
