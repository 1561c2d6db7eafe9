package drain

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
)

// derived finds the routes of the Gateway API that are derived from those of their owners.
func (d *draining) derived(ctx context.Context) (out []item, err error) {
	for _, kind := range []schema.GroupVersionKind{gatewayadapter.HTTPRoutes, gatewayadapter.GRPCRoutes} {
		for _, ns := range d.everywhere() {
			all, err := d.listOf(ctx, kind, client.InNamespace(ns))
			if err != nil {
				return nil, err
			}
			for _, i := range all {
				if gatewayapi.IsDerived(&i.ObjectMeta) {
					out = append(out, i)
				}
			}
		}
	}
	return out, nil
}

// removeDerived has derived routes gone: by the manager, or by the garbage collection of the
// cluster, for as long as Wait is not over, and after that without them.
//
// Where there is no right to read them, as while the Gateway API is off, they are left to the
// garbage collection: what owns them is gone.
func (d *draining) removeDerived(ctx context.Context) error {
	if _, err := d.derived(ctx); apierrors.IsForbidden(err) {
		return nil
	}
	left, err := d.without(ctx, d.derived, d.remove, "neither the controller manager nor the garbage collection has taken derived routes away: they are deleted WITHOUT THEM")
	if len(left) > 0 || err != nil {
		return errors.Join(err, fmt.Errorf("drain: these derived routes are left: %s. Delete them, and uninstall again; or uninstall with --no-hooks and leave them", say(left)))
	}
	return nil
}

// remove deletes a derived route.
func (d *draining) remove(ctx context.Context, i item) error {
	if err := d.writer().Delete(ctx, i.PartialObjectMetadata); err != nil {
		return err
	}
	d.Logger.Warn("deleted without the controller manager", "object", i.String())
	return nil
}
