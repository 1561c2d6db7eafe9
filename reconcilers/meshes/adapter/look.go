package adapter

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	// behind are the VirtualServices that are not as they should be, as they are.
	behind []*unstructured.Unstructured
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
	return a.bring(ctx, &round{mesh: mesh, services: services, seen: now}, all)
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

// note keeps what a look has found so far, and has those IstioRoutes told that it changes.
func (a *Adapter) note(r *round) {
	now := r.seen
	var reports map[Target]Report
	reports, now.behind = r.reports()
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
