package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/destinationrules"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/reconcilers/meshes/istioadapter"
)

// atATime is how many VirtualServices are read in one request: each may have 1 MiB.
const atATime = 20

// endMeshes removes the operator's objects and routes from all meshes, and returns the VirtualServices
// that may still have such routes.
func (d *draining) endMeshes(ctx context.Context) (stay []item, err error) {
	if err := d.removeDerived(ctx); err != nil {
		return nil, err
	}
	if stay, err = d.takeRoutes(ctx); err != nil {
		return nil, err
	}
	return stay, d.removeCopies(ctx)
}

// noteRoutes records the VirtualServices that may have the operator's routes, by the status of
// IstioRoutes, since IstioRoutes are deleted with their RoutingConfigs.
func (d *draining) noteRoutes(ctx context.Context) error {
	var routes crdv1.IstioRouteList
	if err := d.Client.List(ctx, &routes); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("list IstioRoutes: %w", err)
	}
	for i := range routes.Items {
		for _, m := range istioadapter.LeftIn(routes.Items[i].Status.MatchedVirtualServices) {
			v := virtualService(client.ObjectKey{Namespace: m.Namespace, Name: m.Name})
			if !slices.ContainsFunc(d.marked, func(other item) bool { return other.String() == v.String() }) {
				d.marked = append(d.marked, v)
			}
		}
	}
	return nil
}

// virtualService is the item of a VirtualService: its name alone.
func virtualService(key client.ObjectKey) item {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	o.SetGroupVersionKind(istioadapter.VirtualServices)
	return item{istioadapter.VirtualServices.Kind, o}
}

// routed returns the VirtualServices with marks of the operator. A cluster without the kind has none.
func (d *draining) routed(ctx context.Context) (out []item, err error) {
	for _, ns := range d.everywhere() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(istioadapter.VirtualServices.GroupVersion().WithKind(istioadapter.VirtualServices.Kind + "List"))
		for next := true; next; next = list.GetContinue() != "" {
			err := d.Client.List(ctx, list, client.InNamespace(ns), client.Limit(atATime), client.Continue(list.GetContinue()))
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				return nil, nil
			} else if err != nil {
				return nil, fmt.Errorf("list VirtualServices: %w", err)
			}
			for i := range list.Items {
				if istioadapter.Marked(&list.Items[i]) {
					out = append(out, virtualService(client.ObjectKeyFromObject(&list.Items[i])))
				}
			}
		}
	}
	return out, nil
}

// takeRoutes removes the operator's routes from VirtualServices: it waits for the manager to do so
// until Wait is over, and then does so itself. It never deletes a VirtualService, since they belong to
// their owners.
//
// Without the right to read VirtualServices, as while istio.enabled is false, it logs and returns those
// that may still have such routes.
func (d *draining) takeRoutes(ctx context.Context) (stay []item, err error) {
	if _, err := d.routed(ctx); apierrors.IsForbidden(err) {
		d.tellRoutes()
		return d.marked, nil
	}
	left, err := d.without(ctx, d.routed, d.takeOut, "the controller manager has not taken the routes of sandboxes out of VirtualServices: they are taken out WITHOUT IT")
	if len(left) > 0 || err != nil {
		return nil, errors.Join(err, fmt.Errorf(
			"drain: these still have routes of sandboxes: %s. Apply each again from its owner's file, and uninstall again; or uninstall with --no-hooks and leave them", named(left)))
	}
	return nil, nil
}

// without waits until look finds nothing, at most until Wait is over, and then calls act. It returns
// the remaining objects.
func (d *draining) without(ctx context.Context, look lookup, act action, warning string) (left []item, err error) {
	left, err = d.until(ctx, max(0, time.Until(d.began.Add(d.Wait))), look, func(context.Context, item) error { return nil })
	if done(ctx, left, err) {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return left, fmt.Errorf("drain: %w", err)
	}
	d.Logger.Warn(warning, "left", named(left), "why", err)
	left, err = d.until(ctx, d.Force, look, act)
	return left, errors.Join(err, ctx.Err())
}

// tellRoutes logs which VirtualServices may still have the operator's routes, and the remedy.
func (d *draining) tellRoutes() {
	if len(d.marked) > 0 {
		d.Logger.Warn("routes of sandboxes stay in VirtualServices: the operator has no right to remove them, as while istio.enabled is false. "+
			"Apply each again from its owner's file, or run the command in the guide to meshes, section Remaining routes", "stay in", named(d.marked))
		return
	}
	d.Logger.Info("whether VirtualServices have routes of sandboxes is not known: the operator has no right to read them, as while istio.enabled is false. " +
		"If it was true earlier, search for annotation " + istioadapter.AnnotationRoutes + ", as in the guide to meshes, section Remaining routes")
}

// takeOut removes the operator's routes and marks from a VirtualService.
func (d *draining) takeOut(ctx context.Context, i item) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(istioadapter.VirtualServices)
	if err := d.Client.Get(ctx, client.ObjectKeyFromObject(i), o); err != nil {
		return client.IgnoreNotFound(err)
	}
	err := istioadapter.TakeOut(ctx, d.Client, o)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // Retried in the next round.
	}
	if err == nil {
		d.Logger.Warn("routes of sandboxes were taken out without the controller manager", "object", i.String())
	}
	return err
}

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
