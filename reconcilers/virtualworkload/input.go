package virtualworkload

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/sidecars/inject"
)

// Input is what counts for one virtual workload. Nothing in it may be changed: it is
// shared with the cache.
type Input struct {
	// Workload is the VirtualWorkload.
	Workload *crdv1.VirtualWorkload
	// Baseline is the live workload; nil when there is none.
	Baseline *baseline.Workload
	// Pods are those that the baseline's selector selects.
	Pods []corev1.Pod
	// Services are those of the namespace that were not made for a member.
	Services []corev1.Service
	// Injected is what pods get from their injection now, where that is known.
	Injected inject.Settings
}

// known reports whether the baseline is there, and what its pods are.
func (in Input) known() bool { return in.Baseline != nil && in.Baseline.Problem == "" }

// told reports whether the status tells of the baseline that the spec names. Nothing was made
// that could say so of a spec that has changed.
func (in Input) told() bool {
	s := in.Workload.Status
	return s.RoutingConfig != nil && member.StatusIsCurrent[metav1.Object](in.Workload, s.ObservedGeneration, nil)
}
