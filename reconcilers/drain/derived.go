package drain

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/reconcilers/meshes/destinationrules"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/reconcilers/meshes/istioadapter"
)

// derived finds the objects of the Gateway API that are derived from those of their owners.
func (d *draining) derived(ctx context.Context) ([]item, error) {
	isDerived := func(i item) bool { return gatewayapi.IsDerived(&i.ObjectMeta) }
	return d.those(ctx, isDerived, gatewayadapter.HTTPRoutes, gatewayadapter.GRPCRoutes, gatewayadapter.BackendTLSPolicies)
}

// copies finds the DestinationRules that are derived from those of their owners.
func (d *draining) copies(ctx context.Context) ([]item, error) {
	return d.those(ctx, func(i item) bool { return destinationrules.Derived(i) }, istioadapter.DestinationRules)
}

// those returns the objects of kinds that meet a condition.
func (d *draining) those(ctx context.Context, meets func(item) bool, kinds ...schema.GroupVersionKind) (out []item, err error) {
	for _, kind := range kinds {
		for _, ns := range d.everywhere() {
			all, err := d.listOf(ctx, kind, client.InNamespace(ns))
			if err != nil {
				return nil, err
			}
			out = append(out, lists.Filter(all, func(i item) bool { return meets(i) })...)
		}
	}
	return out, nil
}

// removeDerived waits until derived routes are deleted by the manager or by garbage collection, for as
// long as Wait is not over, and then deletes them.
//
// Without the right to read them, as while the Gateway API is off, they are left to garbage
// collection: their owners are deleted.
func (d *draining) removeDerived(ctx context.Context) error {
	if _, err := d.derived(ctx); apierrors.IsForbidden(err) {
		return nil
	}
	return d.removeAll(ctx, d.derived, "derived routes")
}

// removeCopies does the same with derived DestinationRules, once no VirtualService has routes to
// their hosts. Garbage collection leaves those in other namespaces than the fork's.
func (d *draining) removeCopies(ctx context.Context) error {
	if _, err := d.copies(ctx); apierrors.IsForbidden(err) {
		d.Logger.Info("whether derived DestinationRules are left is not known: they cannot be listed, as while istio.enabled is false. If it was true once, " +
			"run kubectl delete destinationrules.networking.istio.io -A -l " + destinationrules.LabelDerived + "=true")
		return nil
	}
	return d.removeAll(ctx, d.copies, "derived DestinationRules")
}

// removeAll deletes the objects that look finds, unless the manager or garbage collection does within
// Wait.
func (d *draining) removeAll(ctx context.Context, look lookup, what string) error {
	left, err := d.without(ctx, look, d.remove, "neither the controller manager nor the garbage collection has deleted "+what+": they are deleted WITHOUT THEM")
	if len(left) > 0 || err != nil {
		return errors.Join(err, fmt.Errorf("drain: these %s are left: %s. Delete them, and uninstall again; or uninstall with --no-hooks and leave them", what, named(left)))
	}
	return nil
}

// remove deletes a derived object.
func (d *draining) remove(ctx context.Context, i item) error {
	if err := d.writer().Delete(ctx, i.PartialObjectMetadata); err != nil {
		return err
	}
	d.Logger.Warn("deleted without the controller manager", "object", i.String())
	return nil
}
