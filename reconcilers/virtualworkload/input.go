package virtualworkload

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
)

// Input has all inputs for one virtual workload. It is shared with the cache and must not be changed.
type Input struct {
	// Workload is the VirtualWorkload.
	Workload *crdv1.VirtualWorkload
	// Seen is the state of its baseline.
	member.Seen
	// Services are the Services of the namespace that were not created for a member.
	Services []corev1.Service
}

// told reports whether the status is about the baseline in the spec. There are no created objects that
// could show it after the spec has changed.
func (in Input) told() bool {
	s := in.Workload.Status
	return s.RoutingConfig != nil && member.StatusIsCurrent[metav1.Object](in.Workload, s.ObservedGeneration, nil)
}
