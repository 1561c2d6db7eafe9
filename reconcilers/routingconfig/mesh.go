package routingconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/routing"
)

// Mesh routes what RoutingConfigs ask it for. Adapters do.
type Mesh interface {
	// Settled reports whether nothing of the mesh routes by a routing key.
	Settled(key string) bool
}

// meshKinds returns the kinds of what the meshes that are on are asked for.
func (r *Reconciler) meshKinds() []crdv1.Kind {
	return slices.DeleteFunc(crdv1.MeshKinds(), func(k crdv1.Kind) bool { return r.config.Meshes[k.Name] == nil })
}

// meshRoutes reads what a RoutingConfig asked meshes for, by kind, and what those say that speak
// of what they are asked for now.
func (r *Reconciler) meshRoutes(ctx context.Context, c *crdv1.RoutingConfig) (map[string][]crdv1.MeshRoute, routing.MeshRoutes, error) {
	made, said := map[string][]crdv1.MeshRoute{}, routing.MeshRoutes{}
	for _, kind := range r.meshKinds() {
		said.Begin(kind.Name)
		list, owned := kind.NewList(), client.MatchingFields{apply.IndexOwner: string(c.UID)}
		if err := r.config.Client.List(ctx, list, owned, client.UnsafeDisableDeepCopy); err != nil {
			return nil, nil, fmt.Errorf("list %ss of RoutingConfig %s: %w", kind.Name, c.Name, err)
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error {
			route, is := o.(crdv1.MeshRoute)
			if !is {
				return fmt.Errorf("%T is no route of a mesh", o)
			}
			made[kind.Name] = append(made[kind.Name], route)
			if route.Observed() >= route.GetGeneration() {
				said[kind.Name][route.GetName()] = route
			}
			return nil
		}); err != nil {
			return nil, nil, fmt.Errorf("list %ss of RoutingConfig %s: %w", kind.Name, c.Name, err)
		}
	}
	return made, said, nil
}

// ReasonMeshRoutesUnwritten returns the reason when what a mesh is asked for cannot be written:
// IstioRoutesUnwritten, GatewayAPIRoutesUnwritten.
func ReasonMeshRoutesUnwritten(kind string) string { return kind + "sUnwritten" }

// askMeshes makes what is asked of meshes, and deletes what is not any more. It leaves all of a
// mesh that is off as it is: then the operator has no right to change it. Errors, by kind, are
// for the status too, which says everything else all the same.
func (r *Reconciler) askMeshes(ctx context.Context, in Input, d Decision) map[string]error {
	out := map[string]error{}
	for _, kind := range r.meshKinds() {
		if err := r.askMesh(ctx, in, d, kind); err != nil {
			out[kind.Name] = err
		}
	}
	return out
}

// askMesh does so for one mesh.
func (r *Reconciler) askMesh(ctx context.Context, in Input, d Decision, kind crdv1.Kind) error {
	var wanted []crdv1.MeshRoute
	if d.Declaration != nil {
		wanted = in.WantedMeshRoutes(kind)
	}
	var errs []error
	for _, want := range wanted {
		errs = append(errs, r.applyMeshRoute(ctx, want, in.meshRoute(kind.Name, want.GetName())))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var surplus []client.Object
	for _, have := range in.MeshRoutes[kind.Name] {
		if d.Declaration != nil && in.ofAbsent(have) {
			continue // As it was asked for last: its requests fail, and do not reach the baseline.
		}
		if !slices.ContainsFunc(wanted, func(w crdv1.MeshRoute) bool { return w.GetName() == have.GetName() }) {
			surplus = append(surplus, have)
		}
	}
	return r.writer.DeleteSurplus(ctx, in.Config, surplus...)
}

// applyMeshRoute brings one into line; have is nil when there is none.
func (r *Reconciler) applyMeshRoute(ctx context.Context, want, have crdv1.MeshRoute) (err error) {
	switch want := want.(type) {
	case *crdv1.IstioRoute:
		have, _ := have.(*crdv1.IstioRoute)
		_, err = apply.Apply(ctx, r.writer, want, have)
	case *crdv1.GatewayAPIRoute:
		have, _ := have.(*crdv1.GatewayAPIRoute)
		_, err = apply.Apply(ctx, r.writer, want, have)
	}
	return err
}

// How long a RoutingConfig that goes waits for meshes: its members, to which they lead, go after
// it. What cannot be written does not keep a sandbox for longer, measured from when the API
// server marked the RoutingConfig.
const (
	settledWithin = 10 * time.Second
	// settledAgain is after what time to look again. A change of what was asked for leads here
	// sooner.
	settledAgain = time.Second
	// takenWithin is how long it waits at least where it asked for something: no mesh tells when
	// its proxies have taken what was written, and pods that end before it take requests with
	// them. The API server's mark leaves out the part of a second.
	takenWithin = 3 * time.Second
)

// endMeshes ends what meshes do for a RoutingConfig that goes, whose facts are off the log, and
// deletes what it asked for. It returns after what time to look again, zero when that is done.
func (r *Reconciler) endMeshes(ctx context.Context, in Input) (time.Duration, error) {
	var errs []error
	goes := r.config.Now().Sub(in.Config.DeletionTimestamp.Time)
	for _, kind := range r.meshKinds() {
		settled := r.config.Meshes[kind.Name].Settled(in.Config.RoutingKey())
		if in.holds() && in.successor() == nil && (!settled && goes < settledWithin || len(in.MeshRoutes[kind.Name]) > 0 && goes < takenWithin) {
			return settledAgain, nil
		}
	}
	for _, all := range in.MeshRoutes {
		for _, have := range all {
			errs = append(errs, r.writer.Delete(ctx, have))
		}
	}
	return 0, errors.Join(errs...)
}

// orphanedMeshes deletes what former RoutingConfigs of this name have asked for and left: the cache
// had not heard of it when one went. now is the UID of the RoutingConfig as the cache has it.
func (r *Reconciler) orphanedMeshes(ctx context.Context, name string, now types.UID) error {
	var errs []error
	for _, kind := range r.meshKinds() {
		_, err := r.writer.DeleteOrphans(ctx, apply.Maker{Kind: crdv1.KindRoutingConfig, Name: name}, now, kind.NewList())
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ofAbsent reports whether something was asked for a member that is named and does not exist.
func (in Input) ofAbsent(have crdv1.MeshRoute) bool {
	of := have.Asked().Managed.SandboxedWorkload
	return slices.ContainsFunc(in.Named(), func(m crdv1.SandboxedWorkload) bool {
		return m.Kind == of.Kind && m.Namespace == of.Namespace && m.Name == of.Name && in.Absent(m)
	})
}

// meshRoute returns the one of this kind and name that the RoutingConfig asked for, or nil.
func (in Input) meshRoute(kind, name string) crdv1.MeshRoute {
	for _, have := range in.MeshRoutes[kind] {
		if have.GetName() == name {
			return have
		}
	}
	return nil
}
