package sandbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingkey"
	"switchyard.dev/workflows/spec"
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

// sooner returns the shorter of two requeue delays, of which zero is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
