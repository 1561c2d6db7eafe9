package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingkey"
	"switchyard.dev/reconcilers/sandbox/census"
	"switchyard.dev/workflows/spec"
)

// stages returns the kinds of parts in the order of deletion: the routing first, so that the key is
// withdrawn while members still serve; then members; then Resources.
func stages() [][]string {
	return [][]string{{crdv1.KindRoutingConfig}, crdv1.Names(crdv1.MemberKinds()), {crdv1.KindResource}}
}

// remove deletes the parts of a sandbox, stage by stage, and returns what it waits for, "" if no part is
// left. Before the next stage it queries the API server past the cache, which may lack the last created
// part; asked is true while that result is pending.
func remove(ctx context.Context, w apply.Writer, c *census.Census, in Input) (waitsFor string, asked bool, err error) {
	known := parts(in)
	for _, kinds := range stages() {
		left := slices.Concat(lists.Map(kinds, func(k string) []client.Object { return known[k] })...)
		if len(left) > 0 {
			c.Forget(in.Sandbox, kinds)
		} else {
			var known bool
			if left, known, err = c.Left(ctx, in.Sandbox, kinds); err != nil {
				return "", false, err
			}
			if !known {
				return "", true, nil
			}
		}
		for _, o := range left {
			if err := w.Delete(ctx, o); err != nil {
				return "", false, err
			}
		}
		if len(left) > 0 {
			return describe(in, kinds, left), false, nil
		}
	}
	return "", false, nil
}

// parts returns the parts in the cache, by kind.
func parts(in Input) map[string][]client.Object {
	out := map[string][]client.Object{}
	for i := range in.Configs {
		out[crdv1.KindRoutingConfig] = append(out[crdv1.KindRoutingConfig], &in.Configs[i])
	}
	for _, m := range in.Members {
		out[m.MemberKind()] = append(out[m.MemberKind()], m)
	}
	for _, r := range in.Resources {
		out[crdv1.KindResource] = append(out[crdv1.KindResource], r)
	}
	return out
}

// describe returns a message about the remaining parts of a stage.
func describe(in Input, kinds []string, left []client.Object) string {
	const going = "The sandbox is being deleted. "
	if kinds[0] != crdv1.KindResource {
		what := "members"
		if len(kinds) == 1 {
			what = kinds[0] + "s"
		}
		return fmt.Sprintf(going+"It waits for %d of its %s to be deleted.", len(left), what)
	}
	o := left[0]
	name := "Resource " + o.GetName()
	if r := in.resource(o.GetName()); r != nil {
		name = fmt.Sprintf("Resource %q (%s)", r.Spec.Name, name)
		if c := crdv1.FindCondition(r.Status.Conditions, crdv1.ConditionReady); c != nil && knowsDeletion(r) && (r.Status.Phase == phaseFailed || waitsForPerson(c)) {
			return fmt.Sprintf("%s holds the sandbox, which is being deleted: %s", name, c.Message)
		}
	}
	more := ""
	if len(left) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(left)-1)
	}
	if keep := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == crdv1.Finalizer }); len(keep) > 0 {
		return fmt.Sprintf(going+"%s%s is deleted once its delete steps have run and other controllers have removed their finalizers: %s.", name, more, strings.Join(keep, ", "))
	}
	return fmt.Sprintf(going+"%s%s is deleted once its delete steps have run.", name, more)
}

// knowsDeletion reports whether the status of a Resource was written since its deletion began, which
// raises the generation: an earlier status is about its create steps.
func knowsDeletion(r *crdv1.Resource) bool {
	return r.DeletionTimestamp != nil && r.Status.ObservedGeneration >= r.Generation
}

// waitsForPerson reports whether the delete steps of a Resource wait for a change by a user: the
// reason is then that of a step, and not one of the kind's own while steps run.
func waitsForPerson(ready *crdv1.StatusCondition) bool {
	own := []string{reasonDeleting, reasonEnding, crdv1.ReasonPending}
	return ready.Status == string(metav1.ConditionFalse) && !slices.Contains(own, ready.Reason)
}

// Reasons of a Resource while its delete steps run.
const (
	reasonDeleting = "Deleting"
	reasonEnding   = "Ending"
)

// A sandbox that is being deleted is removed from its route groups before its members are deleted, so that
// no request with the key of a group is routed to a deleted member. The groups react by themselves, at
// once; a group that cannot delays the deletion for at most this time, measured from the deletion
// timestamp. If the clocks differ by more, requests with the key of a group may fail briefly.
const (
	letGoWithin = 10 * time.Second
	letGoAgain  = 50 * time.Millisecond
)

// groupRouting is a RoutingConfig of a route group that names the sandbox, or did.
type groupRouting struct {
	group  string
	config *crdv1.RoutingConfig
}

// release waits until no route group routes to a member of the sandbox. done is true if there is nothing
// left to wait for.
func (r *Reconciler) release(ctx context.Context, in Input) (after time.Duration, done bool, err error) {
	if len(in.Configs) > 0 || len(in.Members) == 0 {
		return 0, true, nil
	}
	all, err := routedByGroups(ctx, r.config.Client, in)
	if err != nil {
		return 0, false, err
	}
	held := heldBy(in, all, r.config.Now())
	if held == "" {
		return 0, true, nil
	}
	waits := ConcludeDeletion(in, fmt.Sprintf(
		"The sandbox is being deleted. Its members go once SignadotRouteGroup %s no longer routes to them.", held), metav1.NewTime(r.config.Now()))
	if err := r.writer.Status(ctx, in.Sandbox, waits); err != nil {
		return 0, false, err
	}
	return letGoAgain, false, nil
}

// routedByGroups returns the routing of route groups that name the sandbox, and of those that no longer do
// but still have a member of it in their RoutingConfig.
func routedByGroups(ctx context.Context, c client.Reader, in Input) ([]groupRouting, error) {
	groups, err := member.Groups(ctx, c, in.Sandbox.Name)
	if err != nil {
		return nil, err
	}
	var out []groupRouting
	for i := range groups {
		config := &crdv1.RoutingConfig{}
		err := c.Get(ctx, client.ObjectKey{Name: routingkey.ConfigName(groups[i].Spec.RoutingKey)}, config)
		if apierrors.IsNotFound(err) || err == nil && !apply.IsOwned(config, groups[i].UID) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the RoutingConfig of SignadotRouteGroup %s: %w", groups[i].Name, err)
		}
		out = append(out, groupRouting{groups[i].Name, config})
	}
	for _, m := range in.Members {
		all, err := member.NamedBy(ctx, c, m)
		if err != nil {
			return nil, err
		}
		for i := range all {
			if maker := metav1.GetControllerOfNoCopy(&all[i]); maker != nil && maker.Kind == crdv1.KindRouteGroup {
				out = append(out, groupRouting{maker.Name, &all[i]})
			}
		}
	}
	return out, nil
}

// heldBy returns the name of a group that still routes to a member of the sandbox, or has not yet
// published on the routing log that it does not; "" if there is none, or letGoWithin is over.
func heldBy(in Input, all []groupRouting, now time.Time) string {
	if since := in.Sandbox.DeletionTimestamp; since == nil || now.Sub(since.Time) > letGoWithin {
		return ""
	}
	for _, r := range all {
		names := slices.ContainsFunc(r.config.Spec.SandboxedWorkloads, func(m crdv1.SandboxedWorkload) bool {
			return slices.ContainsFunc(in.Members, func(own crdv1.Member) bool {
				return member.NameOf(own) == routing.NameIn(m)
			})
		})
		if names || !crdv1.IsTrue(r.config.Status.Conditions, crdv1.ConditionPublished, r.config.Generation) {
			return r.group
		}
	}
	return ""
}

// expire deletes a sandbox at the end of its lifetime, and reports whether it did. Otherwise it returns
// the remaining lifetime; zero if it has none. Accepted reports a lifetime that cannot be parsed.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotsandboxes,verbs=delete
func (r *Reconciler) expire(ctx context.Context, s *crdv1.SignadotSandbox) (left time.Duration, over bool, err error) {
	at, ends, err := spec.Expires(s)
	if err != nil || !ends || s.DeletionTimestamp != nil {
		return 0, false, nil
	}
	if left = at.Sub(r.config.Now()); left > 0 {
		return left, false, nil
	}
	ctrl.LoggerFrom(ctx).Info("The lifetime of a sandbox is over", "sandbox", s.Name, "since", at)
	// Only in the version that was read: its lifetime may have been extended since.
	err = r.writer.Client.Delete(ctx, s, client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, false, fmt.Errorf("delete %s at the end of its lifetime: %w", apply.Describe(s), err)
	}
	return 0, true, nil
}
