package kinds

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routegroup"
	"switchyard.dev/reconcilers/routingconfig"
	"switchyard.dev/reconcilers/routingkey"
)

// owned returns the kinds that controllers create and find by the UID of the owner and, after its
// deletion, by its name.
func owned() []client.Object {
	out := []client.Object{&corev1.Service{}, &appsv1.Deployment{}, &discoveryv1.EndpointSlice{}}
	for _, kind := range crdv1.MadeKinds() {
		out = append(out, kind.New())
	}
	return out
}

// AddIndexes adds every index of the cache that controllers use, each once. Call it once, before the
// cache starts. also are kinds that controllers create only with certain settings.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer, also ...client.Object) error {
	var errs []error
	for _, kind := range append(owned(), also...) {
		errs = append(errs,
			indexer.IndexField(ctx, kind, apply.IndexOwner, apply.OwnerOf),
			indexer.IndexField(ctx, kind, apply.IndexMaker, apply.MakerOf))
	}
	for _, index := range []func(context.Context, client.FieldIndexer) error{
		baseline.Index, externalworkload.Index, forkedworkload.Index, routingkey.Index, routegroup.Index, routingconfig.Index, member.Index,
	} {
		errs = append(errs, index(ctx, indexer))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("make the indexes of the cache: %w", err)
	}
	return nil
}

// RolloutIndexes returns the indexes of Argo Rollouts, which are in a cache of their own, by
// name.
func RolloutIndexes() map[string]client.IndexerFunc {
	return map[string]client.IndexerFunc{
		apply.IndexOwner: apply.OwnerOf, apply.IndexMaker: apply.MakerOf, baseline.IndexReferred: baseline.ByReferred,
	}
}
