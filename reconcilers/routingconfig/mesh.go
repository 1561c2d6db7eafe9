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

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
)

// Mesh applies the mesh routes of RoutingConfigs. The adapters implement it.
type Mesh interface {
	// Settled reports whether no object of the mesh routes by a routing key.
	Settled(key string) bool
}

// meshKinds returns the kinds of mesh routes of the meshes that are on.
func (r *Reconciler) meshKinds() []crdv1.Kind {
	return slices.DeleteFunc(crdv1.MeshKinds(), func(k crdv1.Kind) bool { return r.config.Meshes[k.Name] == nil })
}

// meshRoutes returns the mesh routes that a RoutingConfig owns, by kind, and those of them with a
// status for their present generation.
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

// ReasonMeshRoutesUnwritten returns the reason if mesh routes of a kind cannot be written:
// IstioRoutesUnwritten, GatewayAPIRoutesUnwritten.
func ReasonMeshRoutesUnwritten(kind string) string { return kind + "sUnwritten" }

// askMeshes writes the mesh routes that the RoutingConfig needs, and deletes surplus ones. It leaves
// those of a mesh that is off, since the operator then has no right to change them. It returns errors
// by kind, for the status, the rest of which is written all the same.
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
	errs := lists.Map(wanted, func(want crdv1.MeshRoute) error {
		return r.applyMeshRoute(ctx, want, in.meshRoute(kind.Name, want.GetName()))
	})
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

// applyMeshRoute applies a mesh route; have is nil if it does not exist.
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

// Bounds on how long a RoutingConfig that is being deleted waits for meshes, since its members are
// deleted after it. They are measured from the deletion timestamp. After settledWithin a failing mesh
// no longer delays the deletion of a sandbox.
const (
	settledWithin = 10 * time.Second
	// settledAgain is the requeue interval. A change of a mesh route triggers a sync sooner.
	settledAgain = time.Second
	// takenWithin is the minimum wait if there are mesh routes: meshes do not report when their proxies
	// have applied a change, and requests to pods that terminate earlier would fail. The deletion
	// timestamp has whole seconds.
	takenWithin = 3 * time.Second
)

// endMeshes deletes the mesh routes of a RoutingConfig that is being deleted and has no more facts on
// the log. It returns the time until the next sync; zero when done.
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
		errs = append(errs, lists.Map(all, func(have crdv1.MeshRoute) error { return r.writer.Delete(ctx, have) })...)
	}
	return 0, errors.Join(errs...)
}

// orphanedMeshes deletes the mesh routes of deleted RoutingConfigs of this name, which the cache lacked
// when those were deleted. now is the UID of the RoutingConfig in the cache.
func (r *Reconciler) orphanedMeshes(ctx context.Context, name string, now types.UID) error {
	var errs []error
	for _, kind := range r.meshKinds() {
		_, err := r.writer.DeleteOrphans(ctx, apply.Maker{Kind: crdv1.KindRoutingConfig, Name: name}, now, kind.NewList())
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ofAbsent reports whether a mesh route is for a member that is named and does not exist.
func (in Input) ofAbsent(have crdv1.MeshRoute) bool {
	of := have.Asked().Managed.SandboxedWorkload
	return slices.ContainsFunc(in.Named(), func(m crdv1.SandboxedWorkload) bool {
		return m.Kind == of.Kind && m.Namespace == of.Namespace && m.Name == of.Name && in.Absent(m)
	})
}

// meshRoute returns the one of this kind and name that the RoutingConfig asked for, or nil.
func (in Input) meshRoute(kind, name string) crdv1.MeshRoute {
	return lists.First(in.MeshRoutes[kind], func(have crdv1.MeshRoute) bool { return have.GetName() == name })
}

// Gone cleans up after a RoutingConfig that is not in the cache. Its key was withdrawn before its
// deletion, but a leader with a stale cache may have declared it again after that. So this process's
// declaration of it is withdrawn, unless another object has the key, or an object of that name exists
// and is not in the cache yet.
func (r *Reconciler) Gone(ctx context.Context, req types.NamespacedName) error {
	name := req.Name
	r.forget(name)
	if err := r.orphanedMeshes(ctx, name, ""); err != nil {
		return err
	}
	declared, ok := r.declared.Load(name)
	if !ok {
		return nil
	}
	key, _ := declared.(string)
	others, err := member.ConfigsBy(ctx, r.config.Client, indexKey, key)
	if err != nil {
		return err
	}
	live, err := r.live(ctx, name)
	if err != nil {
		return err
	}
	if data, ok := event.Withdrawal(event.RoutingKey(key)); ok && len(others) == 0 && live.UID == "" {
		if _, err := r.put(ctx, event.Fact{Key: event.RoutingKey(key), Data: data}); err != nil {
			return err
		}
	}
	r.declared.CompareAndDelete(name, declared)
	return nil
}
