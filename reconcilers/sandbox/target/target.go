// Package target finds the address that answers requests of an override.
package target

import (
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
)

// Of returns the target of a middleware override in a sandbox with these members, or why it has none now.
//
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch
func Of(ctx context.Context, c client.Reader, members []crdv1.Member, mw crdv1.MiddlewareInstance) (*crdv1.CaptureOverride, *apply.Refusal, error) {
	args, err := routing.ParseOverride(mw)
	if err != nil {
		return nil, &apply.Refusal{Reason: routing.ReasonInvalidMiddleware, Message: fmt.Sprintf("Middleware %s: %v.", mw.Middleware, err)}, nil
	}
	out := &crdv1.CaptureOverride{ByStatus: args.ByStatus}
	for _, status := range args.Except {
		out.ExceptStatuses = append(out.ExceptStatuses, int32(status)) //nolint:gosec // checked by Parse
	}
	if args.Forward == "" {
		out.Targets = []crdv1.OverrideTarget{{Port: args.Port, Address: args.Address}}
		return out, nil, nil
	}
	x := forward(members, args.Forward)
	if x == nil {
		return nil, &apply.Refusal{Reason: routing.ReasonInvalidMiddleware, Message: fmt.Sprintf(
			"Middleware %s names %q, which is no member of externalWorkloads without a baseline. Add it, or give %s a value.", mw.Middleware, args.Forward, routing.ArgHost)}, nil
	}
	waits := &apply.Refusal{Reason: crdv1.ReasonPending, Message: fmt.Sprintf("SignadotExternalWorkload %s/%s has no Service yet.", x.Namespace, x.Name)}
	if x.Status.RoutingConfig == nil || len(x.Status.RoutingConfig.Services) != 1 || x.Spec.Tunnel == nil {
		return nil, waits, nil
	}
	s := &corev1.Service{}
	err = c.Get(ctx, client.ObjectKey{Namespace: x.Namespace, Name: x.Status.RoutingConfig.Services[0].To}, s)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("read the Service of SignadotExternalWorkload %s/%s: %w", x.Namespace, x.Name, err)
	}
	if err != nil || !member.Reachable(s) {
		return nil, waits, nil
	}
	for _, p := range s.Spec.Ports {
		out.Targets = append(out.Targets, crdv1.OverrideTarget{Port: p.Port, Address: net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(int(p.Port)))})
	}
	return out, nil, nil
}

// forward returns the external workload without a baseline of a name; nil: there is none.
func forward(members []crdv1.Member, name string) *crdv1.SignadotExternalWorkload {
	for _, one := range members {
		if x, is := one.(*crdv1.SignadotExternalWorkload); is && x != nil && x.Spec.Name == name {
			if _, has := x.BaselineRef(); !has {
				return x
			}
		}
	}
	return nil
}
