package gatewayadapter

import (
	"cmp"
	"context"
	"log/slog"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/routeserver/table"
)

// Trial returns an Adapter for dry runs: it syncs only in Try, and writes nothing. Of the Config it
// needs Client, Kinds, Settings, VirtualServices and Namespaces.
func Trial(c Config) *Adapter {
	c.Settings = c.Settings.withDefaults()
	return &Adapter{
		Follower: &meshes.Follower{}, config: c, logger: cmp.Or(c.Logger, slog.New(slog.DiscardHandler)), keys: map[string]*keyed{},
		cluster: cluster{namespaces: c.Namespaces, settings: c.Settings},
	}
}

// Try syncs with a table once. Report and Settled use its result.
func (a *Adapter) Try(ctx context.Context, t table.Table) { a.sync(ctx, t) }

// Behind returns the derived routes of some routing keys that have to be written, and those that
// have to be deleted. Those to write have the conditions of their originals, as if each
// implementation accepted them.
func (a *Adapter) Behind(keys []string) (put, remove []client.Object) {
	for _, key := range keys {
		k := a.keys[key]
		if k == nil {
			continue
		}
		current := gatewayapi.Routes{}
		for _, r := range a.cluster.derived[key] {
			r.addTo(&current)
		}
		changes := gatewayapi.Plan(current, k.result.Routes, a.cluster.releases...)
		for _, o := range append(together(changes.Create), together(changes.Update)...) {
			put = append(put, a.acceptedAs(k.originalOf(objectOf(o)), o))
		}
		remove = append(remove, together(changes.Delete)...)
	}
	return put, remove
}

// originalOf returns the route from which one is derived; the zero Object where that is not known.
func (k *keyed) originalOf(derived gatewayapi.Object) gatewayapi.Object {
	for _, all := range k.result.Matched {
		for _, m := range all {
			if m.Derived != nil && *m.Derived == derived {
				return m.Baseline
			}
		}
	}
	return gatewayapi.Object{}
}

// acceptedAs returns a copy of a derived route with the conditions of its original.
func (a *Adapter) acceptedAs(original gatewayapi.Object, derived client.Object) client.Object {
	var parents []gatewayv1.RouteParentStatus
	if r := a.cluster.all[original]; r != nil {
		for _, said := range r.statuses {
			said = *said.DeepCopy()
			for i := range said.Conditions {
				said.Conditions[i].ObservedGeneration = 0
			}
			parents = append(parents, said)
		}
	}
	switch o := derived.(type) {
	case *gatewayv1.HTTPRoute:
		o = o.DeepCopy()
		o.Status.Parents = parents
		return o
	case *gatewayv1.GRPCRoute:
		o = o.DeepCopy()
		o.Status.Parents = parents
		return o
	}
	return derived
}
