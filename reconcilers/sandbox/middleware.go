package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/routing"
)

// watch writes a TrafficCapture without a lease for each fork with middleware trafficwatch, and deletes those of other forks.
// The forks own them, so that they are deleted with them.
//
// +kubebuilder:rbac:groups=signadot.com,resources=trafficcaptures,verbs=get;list;watch;create;patch;delete
func watch(ctx context.Context, c client.Reader, w apply.Writer, in Input, made *Made) error {
	var errs []error
	for _, m := range made.Members {
		fork, is := m.(*crdv1.ForkedWorkload)
		if !is || fork == nil {
			continue
		}
		want := &crdv1.TrafficCapture{TypeMeta: typeOf(crdv1.KindTrafficCapture), ObjectMeta: metav1.ObjectMeta{
			Name: crdv1.ObjectName(crdv1.MaxServiceName, routing.TrafficWatch, fork.Name), Namespace: fork.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(fork, crdv1.GroupVersion().WithKind(crdv1.KindForkedWorkload))},
		}}
		want.Spec.Sandbox, want.Spec.Workload = in.Sandbox.Name, fork.Name
		have := &crdv1.TrafficCapture{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(want), have); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("read TrafficCapture %s/%s: %w", want.Namespace, want.Name, err))
			continue
		} else if err != nil {
			have = nil
		}
		ref, _ := fork.BaselineRef()
		watched := slices.ContainsFunc(routing.MiddlewaresFor(in.Sandbox.Spec.RequestMiddlewares, ref), func(i crdv1.MiddlewareInstance) bool {
			return i.Middleware == routing.TrafficWatch
		})
		if !watched {
			if have != nil && apply.IsOwned(have, fork.UID) {
				errs = append(errs, w.Delete(ctx, have))
			}
			continue
		}
		now, refusal, err := apply.Try(ctx, w, want, have)
		errs = append(errs, err)
		if made.Watch = append(made.Watch, now); refusal != nil {
			made.Unwatched = refusal
		}
	}
	return errors.Join(errs...)
}

// watching returns whether the requests of all forks with middleware trafficwatch are recorded.
func (m Made) watching() condition.Condition {
	if m.Unwatched != nil {
		return condition.False(m.Unwatched.Reason, m.Unwatched.Message)
	}
	for _, c := range m.Watch {
		if c == nil {
			return condition.Unknown(crdv1.ReasonPending, "A TrafficCapture is not written yet; retrying.")
		}
		ready := crdv1.FindCondition(c.Status.Conditions, crdv1.ConditionReady)
		if ready == nil {
			return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("TrafficCapture %s/%s is not reconciled yet.", c.Namespace, c.Name))
		}
		if ready.Status != string(metav1.ConditionTrue) {
			return condition.False(ready.Reason, ready.Message)
		}
	}
	return condition.True("Watching", "")
}
