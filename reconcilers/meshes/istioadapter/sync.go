package istioadapter

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/releases"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/reconcilers/policyreader"
	"switchyard.dev/routeserver/table"
)

// Reasons of conditions about all VirtualServices.
const (
	// ReasonNoVirtualServices: the cluster has no such kind.
	ReasonNoVirtualServices = "IstioNotInstalled"
	// ReasonUnreadable: they cannot be read.
	ReasonUnreadable = "VirtualServicesUnreadable"
)

// sync syncs: it computes the wanted VirtualServices, notifies the IstioRoutes of changed reports
// and, on the leader, queues the VirtualServices that are out of date. It returns false if it has to be
// retried.
func (a *Adapter) sync(ctx context.Context, t table.Table) bool {
	concerned := servicesOf(t)
	a.mu.Lock()
	a.services = concerned // One that changes from here on is read again.
	a.mu.Unlock()
	if err := withAuthors(ctx, a.config.Client, concerned); err != nil {
		return a.failed(ctx, err)
	}
	services, err := withPorts(ctx, a.config.Client, concerned)
	if err != nil {
		return a.failed(ctx, err)
	}
	filtered, err := a.filtered(ctx)
	if err != nil {
		return a.failed(ctx, err)
	}
	rollouts, err := a.rollouts(ctx)
	if err != nil {
		return a.failed(ctx, err)
	}
	all, trouble := a.virtualServices(ctx)
	rules := a.rules(ctx)
	if ctx.Err() != nil {
		return false
	}
	a.mu.Lock()
	before, since := a.state, maps.Clone(a.written)
	a.mu.Unlock()
	leads := a.Elected()
	now := before.next(found{trouble: trouble, settings: istio.Settings{
		ClusterDomain: a.config.ClusterDomain, Headers: t.KeyHeaders(), Labels: a.config.Settings.Labels, Annotations: a.config.Settings.Annotations,
		Filtered: filtered, RefuseFiltered: a.config.RefusePolicies, Inferring: releases.Inferring(rollouts), Released: releases.Services(rollouts),
	}, services: services, objects: all, written: since, leads: leads, rules: rules, sidecars: a.sidecars(ctx)})
	a.markRewritten(before, now, since)
	changed := now.changed(before)
	a.mu.Lock()
	a.state = now // The webhook uses it from now on, so before the next write.
	for id := range since {
		delete(a.written, id) // Not earlier: the entry blocks another write of the object.
	}
	a.mu.Unlock()
	a.synced.Send()
	a.Notify(changed)
	if leads {
		a.enqueueRules(now, rules.failed)
		a.enqueue(now, since)
	}
	return (trouble == nil || trouble.Reason == ReasonNoVirtualServices) && rules.unread == nil
}

// filtered returns the names of routes that policies apply to. Policies that cannot be read count
// only where they are a reason to derive no routes.
func (a *Adapter) filtered(ctx context.Context) (map[string]string, error) {
	var all []policies.Policy
	for _, kind := range a.config.Policies {
		if kind.GroupKind() == policies.Sidecars().GroupKind() {
			continue // It names no routes; see sidecars.
		}
		found, err := policyreader.List(ctx, a.config.Client, a.config.Kinds, kind)
		if err != nil && a.config.RefusePolicies {
			return nil, err
		}
		for i := range found {
			all = append(all, policies.Read(kind, found[i].Object))
		}
	}
	return policies.RouteNames(all), nil
}

// sidecars returns the Sidecars of the cluster, where they are read. Those that cannot be read are not
// reported: routes do not depend on them.
func (a *Adapter) sidecars(ctx context.Context) (out []*unstructured.Unstructured) {
	kind := policies.Sidecars()
	if !slices.ContainsFunc(a.config.Policies, func(k policies.Kind) bool { return k.GroupKind() == kind.GroupKind() }) {
		return nil
	}
	found, err := policyreader.List(ctx, a.config.Client, a.config.Kinds, kind)
	if err != nil {
		return nil
	}
	out = append(out, lists.Pointers(found)...)
	return out
}

// rollouts returns the Argo Rollouts of the cluster.
func (a *Adapter) rollouts(ctx context.Context) ([]unstructured.Unstructured, error) {
	present, err := a.config.Kinds.Present(ctx, baseline.RolloutKind().GroupKind())
	if err != nil || !present {
		return nil, err
	}
	rollouts := baseline.NewRolloutList()
	if err := a.config.Client.List(ctx, rollouts, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Rollouts: %w", err)
	}
	return rollouts.Items, nil
}

// failed logs the error of a sync and returns false.
func (a *Adapter) failed(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		a.config.Logger.Error("cannot sync VirtualServices; retrying", "error", err)
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
	out := lists.Filter(lists.Pointers(list.Items), func(o *unstructured.Unstructured) bool {
		return o.GetDeletionTimestamp() == nil
	})
	return out, nil
}
