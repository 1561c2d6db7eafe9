package istioadapter

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/destinationrules"
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
func (a *Adapter) Try(ctx context.Context, t table.Table) { a.sync(ctx, t) }

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
	return sorted(out)
}

// RulesBehind returns the derived DestinationRules for some routing keys that are not as they are wanted,
// each as it should be, and those to delete: of hosts without a Service and without routes.
func (a *Adapter) RulesBehind(ctx context.Context, keys []string) (put, remove []*unstructured.Unstructured, err error) {
	a.mu.Lock()
	s := a.state
	a.mu.Unlock()
	if s == nil {
		return nil, nil, nil
	}
	for id, rule := range s.rules.derived {
		if !s.rules.current(id) && slices.ContainsFunc(rule.Of, func(of destinationrules.Of) bool { return slices.Contains(keys, of.Key) }) {
			put = append(put, rule.Object)
		}
	}
	for id, have := range s.rules.have {
		host := destinationrules.HostOf(have)
		if s.rules.wanted[id] != nil || s.routesTo(host) {
			continue
		}
		name, rest, _ := strings.Cut(host, ".")
		namespace, _, _ := strings.Cut(rest, ".")
		if err := a.config.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Service{}); apierrors.IsNotFound(err) {
			remove = append(remove, have)
		} else if err != nil && !apierrors.IsForbidden(err) { // A user without that right misses deletions alone.
			return nil, nil, fmt.Errorf("read Service %s/%s: %w", namespace, name, err)
		}
	}
	return sorted(put), sorted(remove), nil
}
