package adapter

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/routeserver/table"
)

// Reasons of conditions about all VirtualServices.
const (
	// ReasonNoVirtualServices: the cluster has no such kind.
	ReasonNoVirtualServices = "IstioNotInstalled"
	// ReasonUnreadable: they cannot be read.
	ReasonUnreadable = "VirtualServicesUnreadable"
)

// seen is what the last look has found.
type seen struct {
	// trouble is why VirtualServices cannot be looked at; nil when they can.
	trouble *condition.Condition
	// keys are the routing keys of the table, and services the Services that it leads to.
	keys     map[string]bool
	services map[types.NamespacedName]bool
	// settled: every VirtualService is as it should be.
	settled bool
}

// look brings all VirtualServices into line with a table, and notes what came of it. It returns
// false when something has to be tried again.
func (a *Adapter) look(ctx context.Context, t table.Table) bool {
	now := seen{keys: map[string]bool{}, services: map[types.NamespacedName]bool{}}
	wanted := servicesOf(t)
	for id, s := range wanted {
		now.services[id] = true
		for _, of := range s.Sandboxes {
			now.keys[of.Key] = true
		}
	}
	services, err := withPorts(ctx, a.config.Client, wanted)
	if err != nil {
		return a.failed(ctx, err)
	}
	all, trouble := a.virtualServices(ctx)
	if ctx.Err() != nil {
		return false
	}
	now.trouble = trouble
	mesh := istio.New(istio.Settings{
		ClusterDomain: clusterDomain, Headers: t.KeyHeaders(), Labels: a.config.Settings.Labels, Annotations: a.config.Settings.Annotations,
	}, services, all)
	a.mu.Lock()
	a.mesh = mesh // From now on the webhook has it, which is to put in what is written next.
	a.mu.Unlock()
	a.looked.Send()
	renderings, written, ok := a.bring(ctx, mesh, all)
	now.settled = len(written) == 0 && trouble == nil
	reports := map[Target]Report{}
	for _, s := range services {
		for _, of := range s.Sandboxes {
			r := Report{Looked: true, Trouble: trouble}
			if trouble == nil {
				r = reportOf(mesh.Report(types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, of.Key, renderings), written)
			}
			reports[Target{of.Key, s.Namespace, s.Name}] = r
		}
	}
	a.note(now, reports)
	return ok
}

// failed logs why there was no look.
func (a *Adapter) failed(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		a.config.Logger.Error("VirtualServices could not be looked at; retrying", "error", err)
	}
	return false
}

// virtualServices returns those of the cluster, or why they are not known.
func (a *Adapter) virtualServices(ctx context.Context) ([]*unstructured.Unstructured, *condition.Condition) {
	present, err := a.config.Kinds.Present(ctx, VirtualServices.GroupKind())
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(VirtualServices.GroupVersion().WithKind(VirtualServices.Kind + "List"))
	if err == nil && present {
		err = a.config.Client.List(ctx, list, client.UnsafeDisableDeepCopy)
	}
	var why condition.Condition
	switch {
	case err != nil:
		why = condition.False(ReasonUnreadable, fmt.Sprintf("VirtualServices cannot be read, so they get no routes: %v. Retrying.", err))
		return nil, &why
	case !present:
		why = condition.False(ReasonNoVirtualServices,
			"The cluster has no VirtualServices (networking.istio.io/v1), and istio.enabled is true. Install Istio, or set istio.enabled to false.")
		return nil, &why
	}
	var out []*unstructured.Unstructured
	for i := range list.Items {
		o := &list.Items[i]
		o.SetGroupVersionKind(VirtualServices)
		if o.GetDeletionTimestamp() == nil {
			out = append(out, o)
		}
	}
	return out, nil
}

// bring renders all VirtualServices, and writes those that are not as they should be, where
// this process may. written has those that are still not, with how far they are.
func (a *Adapter) bring(ctx context.Context, mesh *istio.Mesh, all []*unstructured.Unstructured) (renderings []istio.Rendering, written map[string]crdv1.VirtualServiceMatch, ok bool) {
	written, ok = map[string]crdv1.VirtualServiceMatch{}, true
	for _, have := range all {
		r := render(mesh, have)
		renderings = append(renderings, r)
		if !r.Changed {
			continue
		}
		name := have.GetNamespace() + "/" + have.GetName()
		if !a.elected() {
			written[name] = crdv1.VirtualServiceMatch{Status: StatusPending, Message: "The leader writes it."}
			continue
		}
		err := write(ctx, a.config.Client, have, r.Object)
		switch {
		case err == nil:
			a.config.Logger.Info("wrote the routes of a VirtualService", "namespace", have.GetNamespace(), "name", have.GetName())
		case apierrors.IsConflict(err), apierrors.IsNotFound(err), errors.Is(err, context.Canceled):
			// The cache will hear of it, which leads here again.
			written[name] = crdv1.VirtualServiceMatch{Status: StatusPending, Message: "It has just been changed."}
		default:
			ok = false
			written[name] = crdv1.VirtualServiceMatch{Status: StatusFailed, Message: fmt.Sprintf("VirtualService %s cannot be written: %v. Retrying.", name, err)}
			a.config.Logger.Warn("a VirtualService cannot be written; retrying", "namespace", have.GetNamespace(), "name", have.GetName(), "error", err)
		}
	}
	return renderings, written, ok
}

// note keeps what a look has found, and has those IstioRoutes told that it changes.
func (a *Adapter) note(now seen, reports map[Target]Report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for t, r := range reports {
		if before, known := a.reports[t]; !known || !reflect.DeepEqual(before, r) {
			a.changed[t] = true
		}
	}
	for t := range a.reports {
		if _, still := reports[t]; !still {
			a.changed[t] = true
		}
	}
	a.seen, a.reports = now, reports
	if len(a.changed) > 0 {
		a.tell.Send()
	}
}
