package gatewayadapter

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/routeserver/table"
)

// Config has the dependencies and settings of an Adapter.
type Config struct {
	// Config is that of the Follower; Watched and Asked are set.
	meshes.Config
	Settings Settings
	// VirtualServices: the operator routes by these as well, and where IstioRoutes have matched
	// one nothing is derived.
	VirtualServices bool
	// Namespaces are those in which the operator may work; empty means all.
	Namespaces []string
}

// Adapter derives routes of sandboxes from HTTPRoutes and GRPCRoutes and writes them. Create one with
// New, and call Start.
type Adapter struct {
	*meshes.Follower
	config Config
	logger *slog.Logger
	// cluster and keys are those of the last sync. Only syncs use them.
	cluster cluster
	keys    map[string]*keyed
	// wanted are the keys that own the names of routes, as of the previous sync.
	wanted map[gatewayapi.Object]string

	mu      sync.Mutex
	reports map[meshes.Target]Report
	// whole is true after a sync has processed every key, or has found that the cluster cannot be read.
	whole bool
	// unsettled are the routing keys with derived or requested routes; nil before the first sync.
	unsettled map[string]bool
	// trouble is true while the cluster cannot be read; absent when it has no Gateway API.
	trouble, absent bool
}

// New returns an Adapter that is not started, or an error if the Config is invalid.
func New(c Config) (*Adapter, error) {
	c.Asked, c.Settings = crdv1.KindGatewayAPIRoute, c.Settings.withDefaults()
	c.Watched = []schema.GroupKind{HTTPRoutes.GroupKind(), GRPCRoutes.GroupKind(), ReferenceGrants.GroupKind(), BackendTLSPolicies.GroupKind(), baseline.RolloutKind().GroupKind()}
	for _, kind := range c.Settings.PolicyKinds {
		c.Watched = append(c.Watched, kind.GroupKind())
	}
	a := &Adapter{config: c, logger: c.Logger, keys: map[string]*keyed{}, cluster: cluster{namespaces: c.Namespaces, settings: c.Settings}}
	a.logger = cmp.Or(a.logger, slog.Default())
	var err error
	if a.Follower, err = meshes.NewFollower(c.Config, a.sync); err != nil {
		return nil, fmt.Errorf("gatewayadapter: %w", err)
	}
	return a, nil
}

// Report returns the Report of a Target.
func (a *Adapter) Report(t meshes.Target) Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, known := a.reports[t]
	r.Starting = !known && !a.whole
	return r
}

// Settled reports whether nothing is derived for a routing key, nor will be. Nothing is known of
// that while the cluster cannot be read.
func (a *Adapter) Settled(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.trouble {
		return a.absent
	}
	return a.unsettled != nil && !a.unsettled[key]
}

// Changed triggers a sync. Call it after a change of a Service, an IstioRoute or a GatewayAPIRoute.
func (a *Adapter) Changed(any) { a.Stir() }

const (
	// atOnce is the number of keys that are synced concurrently.
	atOnce = 8
	// notedEach is how often GatewayAPIRoutes are notified while a sync still writes.
	notedEach = 500 * time.Millisecond
)

// sync syncs the keys with changes, and returns the time until the next retry; zero for none.
func (a *Adapter) sync(ctx context.Context, t table.Table) time.Duration {
	asked := meshes.AskedOf(t)
	routes, governed, err := a.made(ctx)
	if err == nil {
		err = a.cluster.read(ctx, a.config.Client, a.config.Kinds)
	}
	if err != nil {
		if ctx.Err() == nil {
			a.logger.Error("cannot sync routes of the Gateway API; retrying", "error", err)
		}
		return longestPause
	}
	if a.cluster.trouble != nil {
		a.troubled(asked)
		return longestPause
	}
	at, headers, elected := time.Now(), t.KeyHeaders(), a.Elected()
	a.wanted = a.names()
	var due []string
	states := map[string]inputs{}
	for _, key := range a.keysOf(asked) {
		now, waiting, err := a.inputsOf(ctx, key, asked[key], routes, governed)
		if err != nil {
			a.logger.Error("cannot read the inputs of a routing key; retrying", "key", key, "error", err)
			return firstPause
		}
		now.headers, now.elected = headers, elected
		if a.keys[key] == nil {
			a.keys[key] = &keyed{wrote: map[gatewayapi.Object]types.UID{}}
		}
		a.keys[key].waiting = waiting
		now.taken = a.takenFrom(key)
		if a.keys[key].due(now, at) {
			due, states[key] = append(due, key), now
		}
	}
	a.bringAll(ctx, due, states)
	return a.finish(asked)
}

// names returns the routing key of each wanted route name. If the hashes of two keys collide, the first
// key gets the name.
func (a *Adapter) names() map[gatewayapi.Object]string {
	all := map[gatewayapi.Object]string{}
	for _, key := range slices.Sorted(maps.Keys(a.keys)) {
		for object := range a.keys[key].asks {
			if _, taken := all[object]; !taken {
				all[object] = key
			}
		}
	}
	return all
}

// takenFrom returns the names that a key wants and another key owns, with that key.
func (a *Adapter) takenFrom(key string) map[gatewayapi.Object]string {
	var taken map[gatewayapi.Object]string
	for object := range a.keys[key].asks {
		if by := a.wanted[object]; by != key {
			if taken == nil {
				taken = map[gatewayapi.Object]string{}
			}
			taken[object] = by
		}
	}
	return taken
}

// keysOf returns the routing keys, sorted, that are asked for, that have derived objects, or that
// have written objects which are not in the cache yet.
func (a *Adapter) keysOf(asked map[string][]meshes.Asked) []string {
	all := map[string]bool{}
	for key := range asked {
		all[key] = true
	}
	for key := range a.cluster.derived {
		all[key] = true
	}
	for key, k := range a.keys {
		if len(k.wrote) > 0 {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// bringAll syncs the due keys, and updates the reports of all Targets from time to time.
func (a *Adapter) bringAll(ctx context.Context, due []string, states map[string]inputs) {
	var bringing errgroup.Group
	bringing.SetLimit(atOnce)
	for i, part := range slices.Collect(slices.Chunk(due, 8*atOnce)) {
		began := time.Now()
		for _, key := range part {
			k, now := a.keys[key], states[key]
			bringing.Go(func() error {
				a.bring(ctx, &a.cluster, key, k, now)
				return nil
			})
		}
		_ = bringing.Wait() // None returns an error.
		if i > 0 || time.Since(began) > notedEach {
			a.note()
		}
	}
}

// finish forgets keys without any objects, updates the reports, and returns the time until the next
// retry; zero for none.
func (a *Adapter) finish(asked map[string][]meshes.Asked) time.Duration {
	unsettled := map[string]bool{}
	var next time.Duration
	for key, k := range a.keys {
		if len(asked[key]) == 0 && len(a.cluster.derived[key]) == 0 && len(k.wrote) == 0 {
			delete(a.keys, key)
			continue
		}
		unsettled[key] = true
		if !k.again.IsZero() {
			if after := max(time.Until(k.again), time.Millisecond); next == 0 || after < next {
				next = after
			}
		}
	}
	a.mu.Lock()
	a.unsettled, a.trouble, a.absent, a.whole = unsettled, false, false, true
	a.mu.Unlock()
	a.note()
	return next
}

// note updates the reports of all Targets.
func (a *Adapter) note() {
	reports := map[meshes.Target]Report{}
	for key, k := range a.keys {
		for i := range k.from.managed {
			m := &k.from.managed[i]
			reports[meshes.Target{Key: key, Namespace: m.Namespace, Service: m.TargetService}] = k.report(&a.cluster, m)
		}
		for _, t := range k.waiting {
			reports[t] = Report{}
		}
	}
	a.store(reports)
}

// store stores the reports, and notifies the GatewayAPIRoutes of changed reports.
func (a *Adapter) store(reports map[meshes.Target]Report) {
	a.mu.Lock()
	changed := meshes.Changed(a.reports, reports)
	a.reports = reports
	a.mu.Unlock()
	a.Notify(changed)
}

// troubled reports to all Targets that the cluster cannot be read.
func (a *Adapter) troubled(asked map[string][]meshes.Asked) {
	reports := map[meshes.Target]Report{}
	for _, all := range asked {
		for _, of := range all {
			reports[of.Target] = Report{Synced: true, Trouble: a.cluster.trouble}
		}
	}
	for _, k := range a.keys {
		k.from = inputs{} // Every key is due once the cluster can be read.
	}
	a.mu.Lock()
	a.trouble, a.whole, a.absent = true, true, a.cluster.trouble.Reason == ReasonNotInstalled
	a.mu.Unlock()
	a.store(reports)
}

// made returns the GatewayAPIRoutes that RoutingConfigs have made, by Target, and the
// VirtualService that governs each Target's Service, empty for none; a Target of which that is
// not known is not in it.
func (a *Adapter) made(ctx context.Context) (map[meshes.Target]*crdv1.GatewayAPIRoute, map[meshes.Target]string, error) {
	routes, governed := map[meshes.Target]*crdv1.GatewayAPIRoute{}, map[meshes.Target]string{}
	var all crdv1.GatewayAPIRouteList
	if err := a.config.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list GatewayAPIRoutes: %w", err)
	}
	for i := range all.Items {
		if r := &all.Items[i]; r.DeletionTimestamp == nil && meshes.MadeByRoutingConfig(r) {
			routes[meshes.TargetOf(r)] = r
		}
	}
	if !a.config.VirtualServices {
		return routes, governed, nil
	}
	var istio crdv1.IstioRouteList
	if err := a.config.Client.List(ctx, &istio, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list IstioRoutes: %w", err)
	}
	for i := range istio.Items {
		r := &istio.Items[i]
		if r.Observed() == 0 || !meshes.MadeByRoutingConfig(r) {
			continue // Not synced yet. A status of an earlier generation counts until it is replaced.
		}
		governed[meshes.TargetOf(r)] = ""
		if m := r.Status.MatchedVirtualServices; len(m) > 0 {
			governed[meshes.TargetOf(r)] = m[0].Namespace + "/" + m[0].Name
		}
	}
	return routes, governed, nil
}

// inputsOf returns the inputs of the routes of a key, and the Targets for which nothing can be derived
// yet: the object that would own the route is missing, or it is unknown whether a VirtualService
// governs the Service.
func (a *Adapter) inputsOf(ctx context.Context, key string, asked []meshes.Asked, routes map[meshes.Target]*crdv1.GatewayAPIRoute, governed map[meshes.Target]string) (inputs, []meshes.Target, error) {
	now := inputs{revision: a.cluster.revision, derived: versions(a.cluster.derived[key]), ports: map[types.NamespacedName][]int32{}, governed: map[types.NamespacedName]string{}}
	var waiting []meshes.Target
	for _, of := range asked {
		route := routes[of.Target]
		by, known := governed[of.Target]
		if route == nil || a.config.VirtualServices && !known {
			waiting = append(waiting, of.Target)
			continue
		}
		m := gatewayapi.Managed{
			Name: route.Name, UID: route.UID, RoutingKey: of.Key, Sandbox: of.Sandbox,
			Namespace: of.Namespace, TargetService: of.Service, Mappings: of.Mappings,
		}
		if by != "" {
			now.governed[types.NamespacedName{Namespace: of.Namespace, Name: of.Service}] = by
		}
		for _, to := range of.Mappings {
			name := types.NamespacedName{Namespace: of.Namespace, Name: to.ToService}
			ports, _, err := a.cluster.portsOf(ctx, a.config.Client, name)
			if err != nil {
				return now, nil, err
			}
			now.ports[name] = ports
		}
		now.managed = append(now.managed, m)
	}
	return now, waiting, nil
}
