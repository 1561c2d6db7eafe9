// Package middleware writes the TrafficCaptures of the middlewares of a sandbox, and of its route groups.
package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/sandbox/target"
)

// Asked has the middlewares of a sandbox.
type Asked struct {
	Sandbox *crdv1.SignadotSandbox
	// Groups are the route groups with the sandbox that have middlewares of their own (Own).
	Groups []*crdv1.SignadotRouteGroup
	// Members are the written members; nil pointers are none.
	Members []crdv1.Member
}

// Attached are the TrafficCaptures of a sandbox's own middlewares; nil for one that was not written. Refusal is why one was not, and
// Groups has that by names of route groups.
type Attached struct {
	Captures []*crdv1.TrafficCapture
	Refusal  *apply.Refusal
	Groups   map[string]*apply.Refusal
}

// ofGroup ends the types of conditions of a sandbox that name a route group.
const ofGroup = "/MiddlewaresWritten"

// ConditionOf returns the condition of a sandbox that its TrafficCaptures of a route group are written. It is absent if none was refused.
func ConditionOf(group string) string { return group + ofGroup }

// WriteGroups adds these conditions, and removes others from the sandbox.
func (a Attached) WriteGroups(s *crdv1.SignadotSandbox, conditions condition.Set) {
	s.Status.Conditions = slices.DeleteFunc(s.Status.Conditions, func(c crdv1.StatusCondition) bool {
		group, is := strings.CutSuffix(c.Type, ofGroup)
		return is && a.Groups[group] == nil
	})
	for group, r := range a.Groups {
		conditions[ConditionOf(group)] = condition.False(r.Reason, r.Message)
	}
}

// Own returns those of the route groups of a sandbox that have middlewares of their own and hold their keys, by name.
func Own(all []crdv1.SignadotRouteGroup, s *crdv1.SignadotSandbox) []*crdv1.SignadotRouteGroup {
	out := lists.Filter(lists.Pointers(all), func(g *crdv1.SignadotRouteGroup) bool {
		return len(g.Spec.TrafficManagerMatches) > 0 && g.DeletionTimestamp == nil && g.Spec.RoutingKey != "" && g.Spec.RoutingKey != s.Spec.ID && holdsKey(g)
	})
	slices.SortFunc(out, func(a, b *crdv1.SignadotRouteGroup) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// holdsKey reports whether a group has its key, as of its last status. A group with an invalid specification, such as an empty
// sandbox name, is not accepted, and keeps its key.
func holdsKey(g *crdv1.SignadotRouteGroup) bool {
	c := crdv1.FindCondition(g.Status.Conditions, crdv1.ConditionAccepted)
	return c != nil && (c.Status == string(metav1.ConditionTrue) || c.Reason == baseline.ReasonInvalidSpec)
}

// Changed filters out updates of a route group that Own does not depend on.
func Changed(before, after client.Object) bool {
	b, okB := before.(*crdv1.SignadotRouteGroup)
	a, okA := after.(*crdv1.SignadotRouteGroup)
	return controller.SpecChanged(before, after) || okB && okA && holdsKey(b) != holdsKey(a)
}

// scope are the middlewares of requests with some keys: those of the sandbox itself, or of a route group with its own.
type scope struct {
	matches      []crdv1.MiddlewareMatch
	group        *crdv1.SignadotRouteGroup // nil: the sandbox's
	only, except []string                  // keys
}

// scopes returns that of the sandbox, and then those of route groups.
func (a Asked) scopes() []scope {
	own, all := scope{matches: a.Sandbox.Spec.RequestMiddlewares}, []scope(nil)
	for _, g := range a.Groups {
		own.except = append(own.except, g.Spec.RoutingKey)
		all = append(all, scope{matches: g.Spec.TrafficManagerMatches, group: g, only: []string{g.Spec.RoutingKey}})
	}
	return append([]scope{own}, all...)
}

// applies reports whether a member can have a middleware: forks all, and others that receive requests of a baseline trafficwatch.
func applies(m crdv1.Member, name string) bool {
	_, routed := m.BaselineRef()
	return m.MemberKind() == crdv1.KindForkedWorkload || routed && name == routing.TrafficWatch
}

// exists reports whether a member was written.
func exists(m crdv1.Member) bool {
	switch m := m.(type) {
	case *crdv1.ForkedWorkload:
		return m != nil
	case *crdv1.SignadotExternalWorkload:
		return m != nil
	case *crdv1.VirtualWorkload:
		return m != nil
	}
	return false
}

// Attach writes the TrafficCaptures: one without a lease for each member with middleware trafficwatch, and one for the first member
// with middleware override, both for the sandbox and for each route group. It deletes all others. The members own them, so that they
// are deleted with them.
//
// +kubebuilder:rbac:groups=signadot.com,resources=trafficcaptures,verbs=get;list;watch;create;patch;delete
func (a Asked) Attach(ctx context.Context, c client.Reader, w apply.Writer) (out Attached, err error) {
	out.Groups = map[string]*apply.Refusal{}
	for _, of := range a.scopes() {
		to, overridden := &out, false
		if of.group != nil {
			to = &Attached{} // The status of the group has the captures.
		}
		for _, m := range lists.Filter(a.Members, exists) {
			ref, _ := m.BaselineRef()
			all := map[string]*crdv1.MiddlewareInstance{}
			for _, one := range slices.Backward(routing.MiddlewaresFor(of.matches, ref)) {
				if applies(m, one.Middleware) {
					all[one.Middleware] = &one // the first of each
				}
			}
			if overridden {
				delete(all, routing.Override)
			}
			overridden = overridden || all[routing.Override] != nil
			for _, name := range []string{routing.TrafficWatch, routing.Override} {
				err = errors.Join(err, a.attachTo(ctx, c, w, to, m, of, name, all[name]))
			}
		}
		if of.group != nil && to.Refusal != nil {
			out.Groups[of.group.Name] = to.Refusal
		}
	}
	return out, errors.Join(err, a.detach(ctx, c, w))
}

// detach deletes the TrafficCaptures of route groups that have no middlewares of their own any more, or not the sandbox.
func (a Asked) detach(ctx context.Context, c client.Reader, w apply.Writer) (err error) {
	for _, m := range lists.Filter(a.Members, exists) {
		var all crdv1.TrafficCaptureList
		if err := c.List(ctx, &all, client.InNamespace(m.GetNamespace()), client.HasLabels{crdv1.LabelRouteGroup}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list the TrafficCaptures of namespace %s: %w", m.GetNamespace(), err)
		}
		for _, o := range lists.Pointers(all.Items) {
			of := func(g *crdv1.SignadotRouteGroup) bool {
				return crdv1.LabelValue(g.Name) == o.Labels[crdv1.LabelRouteGroup]
			}
			if apply.IsOwned(o, m.GetUID()) && !slices.ContainsFunc(a.Groups, of) {
				err = errors.Join(err, w.Delete(ctx, o))
			}
		}
	}
	return err
}

// attachTo writes the TrafficCapture of a member for its middleware of this name; nil: it has none, and the capture is deleted.
func (a Asked) attachTo(ctx context.Context, c client.Reader, w apply.Writer, to *Attached, m crdv1.Member, of scope, name string, mw *crdv1.MiddlewareInstance) error {
	want := &crdv1.TrafficCapture{TypeMeta: metav1.TypeMeta{APIVersion: crdv1.APIVersion, Kind: crdv1.KindTrafficCapture}, ObjectMeta: metav1.ObjectMeta{
		Namespace: m.GetNamespace(), OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(m, crdv1.GroupVersion().WithKind(m.MemberKind()))},
	}}
	parts := []string{name, m.GetName()}
	if m.MemberKind() != crdv1.KindForkedWorkload {
		parts = append(parts, m.MemberKind())
	}
	if of.group != nil {
		parts = append(parts, of.group.Name)
		want.Labels = map[string]string{crdv1.LabelRouteGroup: crdv1.LabelValue(of.group.Name)}
	}
	want.Name = crdv1.ObjectName(crdv1.MaxServiceName, parts...)
	want.Spec.Sandbox, want.Spec.Workload, want.Spec.RoutingKeys, want.Spec.ExceptRoutingKeys = a.Sandbox.Name, m.GetName(), of.only, of.except
	have := &crdv1.TrafficCapture{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(want), have); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read TrafficCapture %s/%s: %w", want.Namespace, want.Name, err)
	} else if err != nil {
		have = nil
	}
	if mw == nil {
		if have != nil && apply.IsOwned(have, m.GetUID()) {
			return w.Delete(ctx, have)
		}
		return nil
	}
	if name == routing.Override {
		override, refusal, err := target.Of(ctx, c, a.Members, *mw)
		if refusal != nil || err != nil {
			to.Refusal = cmp.Or(refusal, to.Refusal)
			return err // the capture stays
		}
		want.Spec.Override = override
	}
	now, refusal, err := apply.Try(ctx, w, want, have)
	if to.Captures = append(to.Captures, now); refusal != nil {
		to.Refusal = refusal
	}
	return err
}
