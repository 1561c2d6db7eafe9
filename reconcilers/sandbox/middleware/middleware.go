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
	// Members are the written members; nil for one that was not.
	Members []crdv1.Member
}

// Attached are the TrafficCaptures of a sandbox's own middlewares; nil for one that was not written. Refusal is why one was not, and
// Groups has that by names of route groups.
type Attached struct {
	Captures []*crdv1.TrafficCapture
	Refusal  *apply.Refusal
	Groups   map[string]*apply.Refusal
}

// Ready returns whether the middlewares of all members are applied.
func (a Attached) Ready() condition.Condition {
	if a.Refusal != nil {
		return condition.False(a.Refusal.Reason, a.Refusal.Message)
	}
	for _, c := range a.Captures {
		if applied := Applied(c, "a middleware"); !applied.IsTrue() {
			return applied
		}
	}
	return condition.True("Attached", "")
}

// Applied returns whether a TrafficCapture is ready. If there is none, the message names of, for which it will be written.
func Applied(c *crdv1.TrafficCapture, of string) condition.Condition {
	if c == nil {
		return condition.Unknown(crdv1.ReasonPending, "There is no TrafficCapture yet for "+of+".")
	}
	switch ready := crdv1.FindCondition(c.Status.Conditions, crdv1.ConditionReady); {
	case ready == nil:
		return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("TrafficCapture %s/%s is not reconciled yet.", c.Namespace, c.Name))
	case ready.Status != string(metav1.ConditionTrue):
		return condition.False(ready.Reason, ready.Message)
	}
	return condition.True("Attached", "")
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

// attachment is the TrafficCapture of a member for a middleware of a scope; without an instance there is none.
type attachment struct {
	scope
	member     crdv1.Member
	middleware string
	instance   *crdv1.MiddlewareInstance
}

// attachments returns those of a scope: for each member with middleware trafficwatch, and for the first with middleware override.
func (a Asked) attachments(of scope) (all []attachment) {
	overridden := false
	for _, m := range a.Members {
		ref, _ := m.BaselineRef()
		instances := map[string]*crdv1.MiddlewareInstance{}
		for _, one := range slices.Backward(routing.MiddlewaresFor(of.matches, ref)) {
			if applies(m, one.Middleware) && !(overridden && one.Middleware == routing.Override) {
				instances[one.Middleware] = &one // the first of each
			}
		}
		overridden = overridden || instances[routing.Override] != nil
		for _, name := range []string{routing.TrafficWatch, routing.Override} {
			all = append(all, attachment{of, m, name, instances[name]})
		}
	}
	return all
}

// capture returns the TrafficCapture in a sandbox, without the target of an override. The member owns it.
func (a attachment) capture(sandbox string) *crdv1.TrafficCapture {
	m, parts := a.member, []string{a.middleware, a.member.GetName()}
	c := &crdv1.TrafficCapture{TypeMeta: metav1.TypeMeta{APIVersion: crdv1.APIVersion, Kind: crdv1.KindTrafficCapture}, ObjectMeta: metav1.ObjectMeta{
		Namespace: m.GetNamespace(), OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(m, crdv1.GroupVersion().WithKind(m.MemberKind()))},
	}}
	if m.MemberKind() != crdv1.KindForkedWorkload {
		parts = append(parts, m.MemberKind())
	}
	if a.group != nil {
		parts = append(parts, a.group.Name)
		c.Labels = map[string]string{crdv1.LabelRouteGroup: crdv1.LabelValue(a.group.Name)}
	}
	c.Name = crdv1.ObjectName(crdv1.MaxServiceName, parts...)
	c.Spec = crdv1.TrafficCaptureSpec{Sandbox: sandbox, Workload: m.GetName(), RoutingKeys: a.only, ExceptRoutingKeys: a.except}
	return c
}

// Attach writes the TrafficCaptures for the sandbox and for each route group, and deletes all others. They are deleted with their members.
//
// +kubebuilder:rbac:groups=signadot.com,resources=trafficcaptures,verbs=get;list;watch;create;patch;delete
func (a Asked) Attach(ctx context.Context, c client.Reader, w apply.Writer) (out Attached, err error) {
	a.Members = lists.Filter(a.Members, func(m crdv1.Member) bool { return m != nil })
	out.Groups = map[string]*apply.Refusal{}
	for _, of := range a.scopes() {
		for _, at := range a.attachments(of) {
			now, refusal, failed := a.write(ctx, c, w, at)
			err = errors.Join(err, failed)
			switch {
			case of.group != nil && refusal != nil:
				out.Groups[of.group.Name] = refusal
			case of.group != nil: // Its status has the captures.
			case refusal != nil:
				out.Refusal = refusal
			case at.instance != nil:
				out.Captures = append(out.Captures, now)
			}
		}
	}
	return out, errors.Join(err, a.detach(ctx, c, w))
}

// write writes a TrafficCapture, or deletes it without an instance. One that cannot be changed stays, and the refusal states that.
func (a Asked) write(ctx context.Context, c client.Reader, w apply.Writer, at attachment) (now *crdv1.TrafficCapture, refusal *apply.Refusal, err error) {
	want, have := at.capture(a.Sandbox.Name), &crdv1.TrafficCapture{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(want), have); client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("read %s: %w", apply.Describe(want), err)
	} else if err != nil {
		have = nil
	}
	owned := have != nil && apply.IsOwned(have, at.member.GetUID())
	switch {
	case at.instance == nil && owned:
		return nil, nil, w.Delete(ctx, have)
	case at.instance == nil:
		return nil, nil, nil
	}
	if now = have; at.middleware == routing.Override {
		want.Spec.Override, refusal, err = target.Of(ctx, c, a.Members, *at.instance)
	}
	if refusal == nil && err == nil {
		now, refusal, err = apply.Try(ctx, w, want, have)
	}
	if refusal != nil && owned {
		refusal.Message = fmt.Sprintf("%s; until then %s keeps its settings", strings.TrimSuffix(refusal.Message, "."), apply.Describe(want))
	}
	return now, refusal, err
}

// detach deletes the TrafficCaptures of route groups that have no middlewares of their own any more, or not the sandbox.
func (a Asked) detach(ctx context.Context, c client.Reader, w apply.Writer) (err error) {
	for _, m := range a.Members {
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
