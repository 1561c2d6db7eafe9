package virtualworkload

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
)

// Conclude returns the VirtualWorkload with its new status. now is taken as the time of
// conditions that changed.
func Conclude(in Input, d Decision, now metav1.Time) *crdv1.VirtualWorkload {
	w := in.Workload.DeepCopy()
	w.Status.ObservedGeneration = w.Generation
	w.Status.Baseline, w.Status.RoutingConfig = d.Seen, nil
	if d.Seen != nil {
		w.Status.RoutingConfig = &crdv1.WorkloadRoutingInfo{
			DevMeshSidecarPresent: d.Meshed, Services: d.Services, FormerServices: in.Former(in.Workload),
		}
	}
	ref, _ := w.BaselineRef()
	conditions := maps.Clone(d.Conditions)
	in.WriteReached(w, conditions)
	conditions[crdv1.ConditionReady] = conditions.Ready(fmt.Sprintf(
		"%s exists, and requests with the routing key stay with it, as virtual workload %q asks.", baseline.Describe(ref), w.Spec.Name),
		crdv1.ConditionAccepted, crdv1.ConditionBaselineFound, baseline.ConditionBaselineReached)
	condition.Write(w, conditions, now)
	return w
}
