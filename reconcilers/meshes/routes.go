package meshes

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/paged"
)

// EachRoute calls each for all IstioRoutes and GatewayAPIRoutes. It is not an error if the cluster
// does not have the kind GatewayAPIRoute, which earlier releases did not install.
func EachRoute(ctx context.Context, reader client.Reader, each func(crdv1.MeshRoute)) error {
	if err := paged.Each(ctx, reader, "", paged.Size, func(l *crdv1.IstioRouteList) {
		for i := range l.Items {
			each(&l.Items[i])
		}
	}); err != nil {
		return paged.MayNotList("istioroutes", "", err)
	}
	if err := paged.Each(ctx, reader, "", paged.Size, func(l *crdv1.GatewayAPIRouteList) {
		for i := range l.Items {
			each(&l.Items[i])
		}
	}); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return paged.MayNotList("gatewayapiroutes", "", err)
	}
	return nil
}
