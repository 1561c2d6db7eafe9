package routegroup

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routingkey"
)

// Watch adds watches for RoutingConfigs of route groups, for other claimants of their keys, and for their
// sandboxes and members.
func (r *Reconciler) Watch(b *builder.Builder, _ ctrl.Manager) error {
	rivals, spec := routingkey.Claimants(r.config.Client, crdv1.KindRouteGroup), builder.WithPredicates(controller.Updates(controller.SpecChanged))
	b.Owns(&crdv1.RoutingConfig{}).
		Watches(&crdv1.SignadotRouteGroup{}, rivals, spec).
		Watches(&crdv1.SignadotSandbox{}, rivals, spec).
		Watches(&crdv1.RoutingConfig{}, rivals, spec).
		Watches(&crdv1.SignadotSandbox{}, controller.Enqueue(r.ofSandbox))
	for _, kind := range crdv1.MemberKinds() {
		b.Watches(kind.New(), controller.Enqueue(r.ofMember))
	}
	return nil
}

// Index adds the indexes that a Reconciler uses, in addition to apply.IndexOwner and those of package
// routingkey.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &crdv1.SignadotRouteGroup{}, member.IndexGroup, member.SandboxesOf)
}

// ofSandbox maps a sandbox to the groups that list it.
func (r *Reconciler) ofSandbox(ctx context.Context, o client.Object) []reconcile.Request {
	return r.naming(ctx, o.GetName())
}

// ofMember maps a member to the groups that list its sandbox.
func (r *Reconciler) ofMember(ctx context.Context, o client.Object) []reconcile.Request {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.Kind != crdv1.KindSandbox {
		return nil
	}
	return r.naming(ctx, ref.Name)
}

// naming returns requests for the groups that name a sandbox.
func (r *Reconciler) naming(ctx context.Context, sandbox string) []reconcile.Request {
	return controller.Requests(ctx, r.config.Client, &crdv1.SignadotRouteGroupList{}, client.MatchingFields{member.IndexGroup: sandbox})
}
