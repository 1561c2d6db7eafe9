package routegroup

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/guard"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routingkey"
)

// indexMaker finds RoutingConfigs by the name of the group that made them.
const indexMaker = "metadata.controller.routegroup"

// Setup makes the controller part of the manager.
func (r *Reconciler) Setup(mgr ctrl.Manager, _ publish.Again, o controller.Options) error {
	rivals := routingkey.Claimants(r.config.Client, crdv1.KindRouteGroup)
	spec := builder.WithPredicates(guard.Updates(guard.SpecChanged))
	b := ctrl.NewControllerManagedBy(mgr).
		Named("routegroup").
		WithOptions(o).
		// Its status, too: what was decided while our last write was not yet in the cache
		// may have found nothing to write, and is decided again when it is there.
		For(&crdv1.SignadotRouteGroup{}).
		Owns(&crdv1.RoutingConfig{}).
		Watches(&crdv1.SignadotRouteGroup{}, rivals, spec).
		Watches(&crdv1.SignadotSandbox{}, rivals, spec).
		Watches(&crdv1.RoutingConfig{}, rivals, spec).
		Watches(&crdv1.SignadotSandbox{}, guard.Enqueue(r.ofSandbox))
	for _, kind := range crdv1.MemberKinds() {
		b = b.Watches(kind.New(), guard.Enqueue(r.ofMember))
	}
	return b.Complete(r)
}

// Index makes the indexes that a Reconciler reads by; it also reads by
// apply.IndexOwner and those of package routingkey.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &crdv1.SignadotRouteGroup{}, member.IndexGroup, member.SandboxesOf); err != nil {
		return fmt.Errorf("index route groups by their sandboxes: %w", err)
	}
	if err := indexer.IndexField(ctx, &crdv1.RoutingConfig{}, indexMaker, byMaker); err != nil {
		return fmt.Errorf("index RoutingConfigs by their route groups: %w", err)
	}
	return nil
}

// byMaker returns the name of the group that made an object, if one did.
func byMaker(o client.Object) []string {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.Kind != crdv1.KindRouteGroup || ref.APIVersion != crdv1.APIVersion {
		return nil
	}
	return []string{ref.Name}
}

// ofSandbox leads from a sandbox to the groups that name it.
func (r *Reconciler) ofSandbox(ctx context.Context, o client.Object) []reconcile.Request {
	return r.naming(ctx, o.GetName())
}

// ofMember leads from a member to the groups that name its sandbox.
func (r *Reconciler) ofMember(ctx context.Context, o client.Object) []reconcile.Request {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.Kind != crdv1.KindSandbox {
		return nil
	}
	return r.naming(ctx, ref.Name)
}

// naming returns requests for the groups that name a sandbox.
func (r *Reconciler) naming(ctx context.Context, sandbox string) []reconcile.Request {
	return guard.Requests(ctx, r.config.Client, &crdv1.SignadotRouteGroupList{}, client.MatchingFields{member.IndexGroup: sandbox})
}
