package publish

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// There reports whether an object has this key, by an uncached read, since a cache may lack it. An
// object that cannot be read, because its namespace is no longer allowed to the operator, counts as
// missing.
func (o *Objects) There(ctx context.Context, key event.Key) (bool, error) {
	data, _ := event.Withdrawal(key)
	switch gone := data.(type) {
	case *factv1.WorkloadWithdrawn:
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(crdv1.GroupVersion().WithKind(gone.GetWorkload().GetKind()))
		err := o.Live.Get(ctx, client.ObjectKey{Namespace: gone.GetWorkload().GetNamespace(), Name: gone.GetWorkload().GetName()}, live)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	case *factv1.RoutingWithdrawn:
		var configs crdv1.RoutingConfigList
		if err := o.Live.List(ctx, &configs); err != nil {
			return false, fmt.Errorf("list RoutingConfigs: %w", err)
		}
		return slices.ContainsFunc(configs.Items, func(c crdv1.RoutingConfig) bool { return c.RoutingKey() == gone.GetRoutingKey() }), nil
	}
	return false, nil
}
