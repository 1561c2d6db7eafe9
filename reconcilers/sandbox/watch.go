package sandbox

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/guard"
)

// indexID finds sandboxes by spec.id.
const indexID = "spec.id"

// Setup makes the controller part of the manager.
func (r *Reconciler) Setup(mgr ctrl.Manager, o controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("sandbox").
		WithOptions(o).
		// Its status, too: what was decided while our last write was not yet in the cache
		// may have found nothing to write, and is decided again when it is there.
		For(&crdv1.SignadotSandbox{}).
		Owns(&crdv1.ForkedWorkload{}).
		Owns(&crdv1.RoutingConfig{}).
		Watches(&crdv1.SignadotSandbox{}, handler.EnqueueRequestsFromMapFunc(guard.MapFunc(r.rivals)),
			builder.WithPredicates(guard.Updates(guard.SpecChanged))).
		Complete(r)
}

// Index makes the indexes of sandboxes that a Reconciler reads by; it also reads by
// apply.IndexOwner.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &crdv1.SignadotSandbox{}, indexID, byID); err != nil {
		return fmt.Errorf("index sandboxes: %w", err)
	}
	return nil
}

// byID gives the id of a sandbox.
func byID(o client.Object) []string {
	s, ok := o.(*crdv1.SignadotSandbox)
	if !ok || s.Spec.ID == "" {
		return nil
	}
	return []string{s.Spec.ID}
}

// rivals leads from a sandbox that came, changed or went to the others with its
// id: the key may be theirs now.
func (r *Reconciler) rivals(ctx context.Context, o client.Object) []reconcile.Request {
	s, ok := o.(*crdv1.SignadotSandbox)
	if !ok || s.Spec.ID == "" {
		return nil
	}
	var list crdv1.SignadotSandboxList
	if err := r.config.Client.List(ctx, &list, client.MatchingFields{indexID: s.Spec.ID}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot find the sandboxes with the same id", "id", s.Spec.ID)
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Name != s.Name {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}
