package routingconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/routing"
)

// istioRoutes reads the IstioRoutes that a RoutingConfig made, and what those say that speak
// of what they are asked for now.
func (r *Reconciler) istioRoutes(ctx context.Context, c *crdv1.RoutingConfig) ([]crdv1.IstioRoute, routing.IstioRoutes, error) {
	if r.config.Istio == nil {
		return nil, nil, nil
	}
	var list crdv1.IstioRouteList
	owned := client.MatchingFields{apply.IndexOwner: string(c.UID)}
	if err := r.config.Client.List(ctx, &list, owned, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list IstioRoutes of RoutingConfig %s: %w", c.Name, err)
	}
	said := routing.IstioRoutes{}
	for i := range list.Items {
		if route := &list.Items[i]; route.Status.ObservedGeneration >= route.Generation {
			said[route.Name] = *route.Status.DeepCopy()
		}
	}
	return list.Items, said, nil
}

// ReasonIstioRoutesUnwritten: the IstioRoutes cannot be written.
const ReasonIstioRoutesUnwritten = "IstioRoutesUnwritten"

// istio makes the IstioRoutes that are asked for, and deletes those that are not any more. It
// leaves all as they are while Istio is off: then the operator has no right to change them. An
// error is for the status too, which says everything else all the same.
func (r *Reconciler) istio(ctx context.Context, in Input, d Decision) error {
	if r.config.Istio == nil {
		return nil
	}
	var wanted []*crdv1.IstioRoute
	if d.Declaration != nil {
		wanted = in.WantedIstioRoutes()
	}
	var errs []error
	for _, want := range wanted {
		_, err := apply.Apply(ctx, r.writer, want, in.istioRoute(want.Name))
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var surplus []client.Object
	for i := range in.IstioRoutes {
		have := &in.IstioRoutes[i]
		if !slices.ContainsFunc(wanted, func(w *crdv1.IstioRoute) bool { return w.Name == have.Name }) {
			surplus = append(surplus, have)
		}
	}
	return r.writer.DeleteSurplus(ctx, in.Config, surplus...)
}

// How long a RoutingConfig that goes waits for VirtualServices: its members, to which they lead,
// go after it. One that cannot be written does not keep a sandbox for longer, measured from when
// the API server marked the RoutingConfig.
const (
	settledWithin = 10 * time.Second
	// settledAgain is for when no IstioRoute tells of the end: those lead here again.
	settledAgain = time.Second
)

// endIstio ends what Istio does for a RoutingConfig that goes, whose facts are off the log, and
// deletes its IstioRoutes. It returns after what time to look again, zero when that is done.
func (r *Reconciler) endIstio(ctx context.Context, in Input) (time.Duration, error) {
	if r.config.Istio == nil {
		return 0, nil
	}
	if in.holds() && in.heir() == nil && !r.config.Istio.Settled(in.Config.RoutingKey()) &&
		r.config.Now().Sub(in.Config.DeletionTimestamp.Time) < settledWithin {
		return settledAgain, nil
	}
	var errs []error
	for i := range in.IstioRoutes {
		errs = append(errs, r.writer.Delete(ctx, &in.IstioRoutes[i]))
	}
	return 0, errors.Join(errs...)
}

// orphanedIstio deletes the IstioRoutes that a former RoutingConfig of this name has left.
func (r *Reconciler) orphanedIstio(ctx context.Context, name string) error {
	if r.config.Istio == nil {
		return nil
	}
	_, err := r.writer.DeleteOrphans(ctx, apply.Maker{Kind: crdv1.KindRoutingConfig, Name: name}, "", &crdv1.IstioRouteList{})
	return err
}

// istioRoute returns the IstioRoute of this name that the RoutingConfig made, or nil.
func (in Input) istioRoute(name string) *crdv1.IstioRoute {
	for i := range in.IstioRoutes {
		if in.IstioRoutes[i].Name == name {
			return &in.IstioRoutes[i]
		}
	}
	return nil
}
