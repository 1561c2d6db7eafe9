package policies

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
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
	// Service is the Service that the policy targets; empty for none.
	Service string
}

// Observes reports whether the policy protects nothing.
func (p Passed) Observes() bool { return p.Policy.Kind.observes }

// OnWorkload returns the policies that apply to a baseline and not to its fork: those that protect
// something first, by name.
func OnWorkload(all []Policy, w Workload) []Passed {
	var out []Passed
	for _, p := range all {
		if passed, is := p.onWorkload(w); p.Kind.workloads && is {
			out = append(out, passed)
		}
	}
	slices.SortStableFunc(out, func(a, b Passed) int {
		if a.Observes() != b.Observes() {
			return map[bool]int{true: 1, false: -1}[a.Observes()]
		}
		return cmp.Compare(a.Policy.String(), b.Policy.String())
	})
	return out
}

func (p Policy) onWorkload(w Workload) (Passed, bool) {
	for _, name := range w.Services {
		if slices.Contains(p.targets, target{"", "Service", w.Namespace, name}) {
			return Passed{Policy: p, Service: name}, true
		}
	}
	for _, s := range p.pods {
		if !p.reaches(w.Namespace, s) || !s.Matches(labels.Set(w.Labels)) || s.Matches(labels.Set(w.Fork)) {
			continue
		}
		out := Passed{Policy: p}
		for _, key := range s.keys {
			if value, has := w.Labels[key]; has && w.Fork[key] != value {
				out.Labels = append(out.Labels, key)
			}
		}
		return out, true
	}
	return Passed{}, false
}

// reaches reports whether the policy selects pods of a namespace by a selector.
func (p Policy) reaches(namespace string, s podSelector) bool {
	switch {
	case s.within != "":
		return s.within == namespace && (p.Namespace == "" || p.Namespace == namespace)
	case p.Namespace == "", p.anywhere, p.Kind.root && p.Namespace == rootNamespace:
		return true
	case len(p.within) > 0:
		return slices.Contains(p.within, namespace)
	}
	return p.Namespace == namespace
}
