package istioadapter

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/routeserver/table"
)

// Trial returns an Adapter for dry runs: it syncs only in Try, and writes nothing. Of the Config it
// needs Settings, Client and Kinds.
func Trial(c Config) *Adapter {
	c.ClusterDomain, c.Logger = cmp.Or(c.ClusterDomain, "cluster.local"), cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return &Adapter{Follower: &meshes.Follower{}, config: c, written: map[types.NamespacedName]written{}}
}

// Try syncs with a table once. Report and Settled use its result.
func (a *Adapter) Try(ctx context.Context, t table.Table) { a.look(ctx, t) }

// Behind returns the VirtualServices that need other routes for some routing keys, each as
// it should be.
func (a *Adapter) Behind(keys []string) (out []*unstructured.Unstructured) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == nil {
		return nil
	}
	for _, k := range a.state.objects {
		if k.behind() && slices.ContainsFunc(k.differ, func(name string) bool {
			return slices.ContainsFunc(keys, func(key string) bool { return names.NamedFor(name, key) })
		}) {
			out = append(out, k.rendering.Object)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return out
}
