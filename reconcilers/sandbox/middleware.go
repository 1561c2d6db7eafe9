package sandbox

import (
	"cmp"
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
	"switchyard.dev/reconcilers/sandbox/target"
)

// attach writes the TrafficCaptures of middlewares: one without a lease for each fork with middleware trafficwatch, and one for
// the first fork with middleware override. It deletes those of other forks. The forks own them, so that they are deleted with them.
//
// +kubebuilder:rbac:groups=signadot.com,resources=trafficcaptures,verbs=get;list;watch;create;patch;delete
func attach(ctx context.Context, c client.Reader, w apply.Writer, in Input, made *Made) error {
	var errs []error
	overridden := false
	for _, m := range made.Members {
		fork, is := m.(*crdv1.ForkedWorkload)
		if !is || fork == nil {
			continue
		}
		ref, _ := fork.BaselineRef()
		all := map[string]*crdv1.MiddlewareInstance{}
		for _, one := range slices.Backward(routing.MiddlewaresFor(in.Sandbox.Spec.RequestMiddlewares, ref)) {
			all[one.Middleware] = &one // the first of each
		}
		if overridden {
			delete(all, routing.Override)
		}
		overridden = overridden || all[routing.Override] != nil
		for _, name := range []string{routing.TrafficWatch, routing.Override} {
			errs = append(errs, attachTo(ctx, c, w, in, made, fork, name, all[name]))
		}
	}
	return errors.Join(errs...)
}

// attachTo writes the TrafficCapture of a fork for its middleware of this name; nil: it has none, and the capture is deleted.
func attachTo(ctx context.Context, c client.Reader, w apply.Writer, in Input, made *Made, fork *crdv1.ForkedWorkload, name string, mw *crdv1.MiddlewareInstance) error {
	want := &crdv1.TrafficCapture{TypeMeta: typeOf(crdv1.KindTrafficCapture), ObjectMeta: metav1.ObjectMeta{
		Name: crdv1.ObjectName(crdv1.MaxServiceName, name, fork.Name), Namespace: fork.Namespace,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(fork, crdv1.GroupVersion().WithKind(crdv1.KindForkedWorkload))},
	}}
	want.Spec.Sandbox, want.Spec.Workload = in.Sandbox.Name, fork.Name
	have := &crdv1.TrafficCapture{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(want), have); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read TrafficCapture %s/%s: %w", want.Namespace, want.Name, err)
	} else if err != nil {
		have = nil
	}
	if mw == nil {
		if have != nil && apply.IsOwned(have, fork.UID) {
			return w.Delete(ctx, have)
		}
		return nil
	}
	if name == routing.Override {
		to, refusal, err := target.Of(ctx, c, made.Members, *mw)
		if refusal != nil || err != nil {
			made.Unwatched = cmp.Or(refusal, made.Unwatched)
			return err // the capture stays
		}
		want.Spec.Override = to
	}
	now, refusal, err := apply.Try(ctx, w, want, have)
	if made.Watch = append(made.Watch, now); refusal != nil {
		made.Unwatched = refusal
	}
	return err
}

// attached returns whether the middlewares of all forks are applied.
func (m Made) attached() condition.Condition {
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
	return condition.True("Attached", "")
}
