package virtualworkload

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
)

// Input is what counts for one virtual workload. Nothing in it may be changed: it is
// shared with the cache.
type Input struct {
	// Workload is the VirtualWorkload.
	Workload *crdv1.VirtualWorkload
	// Seen is what there is of its baseline.
	member.Seen
	// Services are those of the namespace that were not made for a member.
	Services []corev1.Service
}

// told reports whether the status is about the baseline in the spec. There are no created objects that
// could show it after the spec has changed.
func (in Input) told() bool {
	s := in.Workload.Status
	return s.RoutingConfig != nil && member.StatusIsCurrent[metav1.Object](in.Workload, s.ObservedGeneration, nil)
}
