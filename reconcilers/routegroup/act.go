package routegroup

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// act brings about what was decided: the new key before an old one goes. What is
// refused is noted in Made. An error means that it should be tried again.
//
// +kubebuilder:rbac:groups=signadot.com,resources=routingconfigs,verbs=create;patch;delete
// +kubebuilder:rbac:groups=signadot.com,resources=signadotroutegroups/finalizers,verbs=update
func act(ctx context.Context, w apply.Writer, in Input, d Decision) (Made, error) {
	made := Made{}
	if d.Config != nil {
		have, err := apply.Apply(ctx, w, d.Config, in.KeyConfig)
		switch {
		case errors.As(err, &made.Refusal):
		case err != nil:
			return Made{Config: in.KeyConfig}, err // What is not wanted any more stays until the new is there.
		default:
			made.Config = have
		}
	}
	surplus := make([]client.Object, 0, len(d.Surplus))
	for _, c := range d.Surplus {
		surplus = append(surplus, c)
	}
	return made, w.DeleteSurplus(ctx, in.Group, surplus...)
}

// remove deletes RoutingConfigs.
func remove(ctx context.Context, w apply.Writer, configs []*crdv1.RoutingConfig) error {
	var errs []error
	for _, c := range configs {
		errs = append(errs, w.Delete(ctx, c.DeepCopy()))
	}
	return errors.Join(errs...)
}

// deleteOrphans deletes what a former life of the group of this name has left, where nothing
// collects garbage, or is slow to. now is the UID of the group as the cache has it,
// empty when it has none. Whether the maker of
// something is alive is asked past the cache, which may be behind.
func deleteOrphans(ctx context.Context, c client.Reader, w apply.Writer, name string, now types.UID) error {
	var list crdv1.RoutingConfigList
	if err := c.List(ctx, &list, client.MatchingFields{indexMaker: name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("look for what is left of SignadotRouteGroup %s: %w", name, err)
	}
	var left []*crdv1.RoutingConfig
	for i := range list.Items {
		if !apply.IsOwned(&list.Items[i], now) {
			left = append(left, &list.Items[i])
		}
	}
	if len(left) == 0 {
		return nil
	}
	live := &crdv1.SignadotRouteGroup{}
	if err := w.Live.Get(ctx, client.ObjectKey{Name: name}, live); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("see whether SignadotRouteGroup %s is gone: %w", name, err)
	}
	var gone []*crdv1.RoutingConfig
	for _, c := range left {
		if !apply.IsOwned(c, live.UID) {
			gone = append(gone, c)
		}
	}
	return remove(ctx, w, gone)
}
