package policies

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Workload is a baseline, beside which is a fork.
type Workload struct {
	Namespace string
	// Labels are those of the baseline's pods, Fork those of the fork's.
	Labels, Fork map[string]string
	// Services are the names of the baseline's Services.
	Services []string
}

// Passed is a policy that applies to a baseline and not to its fork.
type Passed struct {
	Policy Policy
	// Labels are the keys of the labels of the baseline that the policy selects by and the fork
	// lacks, sorted.
	Labels []string
	// Excluded are the keys of labels of the fork that the policy excludes, sorted.
	Excluded []string
	// Service is the Service that the policy targets; empty for none.
	Service string
}

// Observes reports whether the policy protects nothing.
func (p Passed) Observes() bool { return p.Policy.Kind.Observes() }

// ForksExcluded reports whether the policy excludes forks on purpose: by a label that the operator
// sets on all of them.
func (p Passed) ForksExcluded() bool {
	return slices.Contains(p.Excluded, crdv1.LabelSandbox) || slices.Contains(p.Excluded, crdv1.LabelForkedWorkload)
}

// OnlyReported reports whether the policy is no reason to refuse a fork.
func (p Passed) OnlyReported() bool { return p.Observes() || p.ForksExcluded() || p.Policy.Unclear() }

// OnWorkload returns the policies that apply to a baseline and not to its fork, unless another with the
// same settings applies to the fork, and those for which that is unclear. Those that are a reason to
// refuse the fork come first, by name.
func OnWorkload(all []Policy, w Workload) []Passed {
	var out []Passed
	for _, p := range all {
		if passed, is := p.onWorkload(w, all); p.Kind.workloads && is {
			out = append(out, passed)
		}
	}
	slices.SortStableFunc(out, func(a, b Passed) int {
		if a.OnlyReported() != b.OnlyReported() {
			return map[bool]int{true: 1, false: -1}[a.OnlyReported()]
		}
		return cmp.Compare(a.Policy.String(), b.Policy.String())
	})
	return out
}

func (p Policy) onWorkload(w Workload, others []Policy) (Passed, bool) {
	for _, name := range w.Services {
		if slices.Contains(p.targets, target{"", "Service", w.Namespace, name}) {
			return Passed{Policy: p, Service: name}, true
		}
	}
	if p.Unclear() {
		return Passed{Policy: p}, p.Namespace == "" || p.Namespace == w.Namespace
	}
	var all []Passed
	for _, s := range p.pods {
		if p.reaches(w.Namespace, s) && s.Matches(labels.Set(w.Labels)) && !s.Matches(labels.Set(w.Fork)) && !s.replaced(p.Kind, others, w) {
			all = append(all, s.passed(p, w))
		}
	}
	if len(all) == 0 {
		return Passed{}, false
	}
	return all[max(0, slices.IndexFunc(all, func(of Passed) bool { return !of.ForksExcluded() }))], true
}

// passed returns why the selector of a policy selects the baseline and not the fork.
func (s podSelector) passed(p Policy, w Workload) Passed {
	out := Passed{Policy: p}
	for _, key := range s.keys {
		if value, has := w.Labels[key]; has && w.Fork[key] != value {
			out.Labels = append(out.Labels, key)
		}
	}
	requirements, _ := s.Requirements()
	for _, r := range requirements {
		if (r.Operator() == selection.NotIn || r.Operator() == selection.DoesNotExist) && !r.Matches(labels.Set(w.Fork)) {
			out.Excluded = append(out.Excluded, r.Key())
		}
	}
	slices.Sort(out.Excluded)
	return out
}

// reaches reports whether the policy selects pods of a namespace by a selector.
func (p Policy) reaches(namespace string, s podSelector) bool {
	switch {
	case s.within != "":
		return s.within == namespace && (p.Namespace == "" || p.Namespace == namespace)
	case p.Namespace == "", p.anywhere, p.Kind.root && p.Namespace == RootNamespace:
		return true
	case len(p.within) > 0:
		return slices.Contains(p.within, namespace)
	}
	return p.Namespace == namespace
}
