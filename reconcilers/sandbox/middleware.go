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

// attach writes the TrafficCaptures of middlewares: one without a lease for each member with middleware trafficwatch, and one for
// the first fork with middleware override. It deletes those of others. The members own them, so that they are deleted with them.
//
// +kubebuilder:rbac:groups=signadot.com,resources=trafficcaptures,verbs=get;list;watch;create;patch;delete
func attach(ctx context.Context, c client.Reader, w apply.Writer, in Input, made *Made) error {
	var errs []error
	overridden := false
	for _, m := range made.Members {
		if isNone(m) {
			continue
		}
		ref, routed := m.BaselineRef()
		if !routed {
			continue
		}
		all := map[string]*crdv1.MiddlewareInstance{}
		for _, one := range slices.Backward(routing.MiddlewaresFor(in.Sandbox.Spec.RequestMiddlewares, ref)) {
			all[one.Middleware] = &one // the first of each
		}
		if overridden || m.MemberKind() != crdv1.KindForkedWorkload {
			delete(all, routing.Override)
		}
		overridden = overridden || all[routing.Override] != nil
		for _, name := range []string{routing.TrafficWatch, routing.Override} {
			errs = append(errs, attachTo(ctx, c, w, in, made, m, name, all[name]))
		}
	}
	return errors.Join(errs...)
}

// isNone reports whether a member was not written.
func isNone(m crdv1.Member) bool {
	switch m := m.(type) {
	case *crdv1.ForkedWorkload:
		return m == nil
	case *crdv1.SignadotExternalWorkload:
		return m == nil
	case *crdv1.VirtualWorkload:
		return m == nil
	}
	return true
}

// attachTo writes the TrafficCapture of a member for its middleware of this name; nil: it has none, and the capture is deleted.
func attachTo(ctx context.Context, c client.Reader, w apply.Writer, in Input, made *Made, of crdv1.Member, name string, mw *crdv1.MiddlewareInstance) error {
	parts := []string{name, of.GetName()}
	if of.MemberKind() != crdv1.KindForkedWorkload {
		parts = append(parts, of.MemberKind())
	}
	want := &crdv1.TrafficCapture{TypeMeta: typeOf(crdv1.KindTrafficCapture), ObjectMeta: metav1.ObjectMeta{
		Name: crdv1.ObjectName(crdv1.MaxServiceName, parts...), Namespace: of.GetNamespace(),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, crdv1.GroupVersion().WithKind(of.MemberKind()))},
	}}
	want.Spec.Sandbox, want.Spec.Workload = in.Sandbox.Name, of.GetName()
	have := &crdv1.TrafficCapture{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(want), have); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read TrafficCapture %s/%s: %w", want.Namespace, want.Name, err)
	} else if err != nil {
		have = nil
	}
	if mw == nil {
		if have != nil && apply.IsOwned(have, of.GetUID()) {
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

// attached returns whether the middlewares of all members are applied.
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
