package routingkey

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/reconcilers/controller"
)

// Claimants returns a handler that maps a claimant of a key (see Of) to the others of a kind, so that
// one takes over when another gives the key up. kind is crdv1.KindSandbox or crdv1.KindRouteGroup.
func Claimants(c client.Reader, kind string) handler.EventHandler {
	return controller.Enqueue(func(ctx context.Context, o client.Object) []reconcile.Request {
		claims, err := Claims(ctx, c, Of(o))
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find who else claims a routing key", "key", Of(o))
			return nil
		}
		var out []reconcile.Request
		for _, claim := range claims {
			if claim.Kind == kind && claim.UID != o.GetUID() {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: claim.Name}})
			}
		}
		return out
	})
}
