package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/sandbox/target"
)

// scope are the middlewares of requests with some keys: those of the sandbox itself, or of a route group with its own.
type scope struct {
	matches      []crdv1.MiddlewareMatch
	group        *crdv1.SignadotRouteGroup // nil: the sandbox's
	only, except []string                  // keys
}

// scopes returns that of the sandbox, and then those of route groups.
func scopes(in Input) []scope {
	own, all := scope{matches: in.Sandbox.Spec.RequestMiddlewares}, []scope(nil)
	for _, g := range in.Groups {
		own.except = append(own.except, g.Spec.RoutingKey)
		all = append(all, scope{matches: g.Spec.TrafficManagerMatches, group: g, only: []string{g.Spec.RoutingKey}})
	}
	return append([]scope{own}, all...)
}

// ownMatches returns those of the route groups of a sandbox that have middlewares of their own, by name.
func ownMatches(all []crdv1.SignadotRouteGroup, s *crdv1.SignadotSandbox) []*crdv1.SignadotRouteGroup {
	out := lists.Filter(lists.Pointers(all), func(g *crdv1.SignadotRouteGroup) bool {
		return len(g.Spec.TrafficManagerMatches) > 0 && g.DeletionTimestamp == nil && g.Spec.RoutingKey != s.Spec.ID
	})
	slices.SortFunc(out, func(a, b *crdv1.SignadotRouteGroup) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// attach writes the TrafficCaptures of middlewares: one without a lease for each fork with middleware trafficwatch, and one for
// the first fork with middleware override, both for the sandbox and for each route group with middlewares of its own. It deletes all
// others. The forks own them, so that they are deleted with them.
//
// +kubebuilder:rbac:groups=signadot.com,resources=trafficcaptures,verbs=get;list;watch;create;patch;delete
func attach(ctx context.Context, c client.Reader, w apply.Writer, in Input, made *Made) error {
	var errs []error
	for _, of := range scopes(in) {
		to := made
		if of.group != nil { // Its status has them.
			to = &Made{Members: made.Members}
		}
		overridden := false
		for _, m := range made.Members {
			fork, is := m.(*crdv1.ForkedWorkload)
			if !is || fork == nil {
				continue
			}
			ref, _ := fork.BaselineRef()
			all := map[string]*crdv1.MiddlewareInstance{}
			for _, one := range slices.Backward(routing.MiddlewaresFor(of.matches, ref)) {
				all[one.Middleware] = &one // the first of each
			}
			if overridden {
				delete(all, routing.Override)
			}
			overridden = overridden || all[routing.Override] != nil
			for _, name := range []string{routing.TrafficWatch, routing.Override} {
				errs = append(errs, attachTo(ctx, c, w, in, to, fork, of, name, all[name]))
			}
		}
	}
	return errors.Join(append(errs, detachGroups(ctx, c, w, in, made))...)
}

// detachGroups deletes the TrafficCaptures of route groups that have no middlewares of their own any more, or not the sandbox.
func detachGroups(ctx context.Context, c client.Reader, w apply.Writer, in Input, made *Made) error {
	for _, m := range made.Members {
		fork, is := m.(*crdv1.ForkedWorkload)
		if !is || fork == nil {
			continue
		}
		var all crdv1.TrafficCaptureList
		if err := c.List(ctx, &all, client.InNamespace(fork.Namespace), client.HasLabels{crdv1.LabelRouteGroup}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list the TrafficCaptures of namespace %s: %w", fork.Namespace, err)
		}
		for _, o := range lists.Pointers(all.Items) {
			of := func(g *crdv1.SignadotRouteGroup) bool {
				return crdv1.LabelValue(g.Name) == o.Labels[crdv1.LabelRouteGroup]
			}
			if !apply.IsOwned(o, fork.UID) || slices.ContainsFunc(in.Groups, of) {
				continue
			}
			if err := w.Delete(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// attachTo writes the TrafficCapture of a fork for its middleware of this name; nil: it has none, and the capture is deleted.
func attachTo(ctx context.Context, c client.Reader, w apply.Writer, in Input, made *Made, fork *crdv1.ForkedWorkload, of scope, name string, mw *crdv1.MiddlewareInstance) error {
	want := &crdv1.TrafficCapture{TypeMeta: typeOf(crdv1.KindTrafficCapture), ObjectMeta: metav1.ObjectMeta{
		Name: crdv1.ObjectName(crdv1.MaxServiceName, name, fork.Name), Namespace: fork.Namespace,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(fork, crdv1.GroupVersion().WithKind(crdv1.KindForkedWorkload))},
	}}
	if of.group != nil {
		want.Name = crdv1.ObjectName(crdv1.MaxServiceName, name, fork.Name, of.group.Name)
		want.Labels = map[string]string{crdv1.LabelRouteGroup: crdv1.LabelValue(of.group.Name)}
	}
	want.Spec.Sandbox, want.Spec.Workload, want.Spec.RoutingKeys, want.Spec.ExceptRoutingKeys = in.Sandbox.Name, fork.Name, of.only, of.except
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
