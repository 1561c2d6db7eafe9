package routingconfig

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/guard"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routing"
)

// indexKey finds RoutingConfigs by routing key.
const indexKey = "routingKey"

// Setup makes the controller part of the manager. again brings objects that are
// to be looked at although they have not changed.
func (r *Reconciler) Setup(mgr ctrl.Manager, again publish.Again, o controller.Options) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named("routingconfig").
		WithOptions(o).
		// Its status, too: what was decided while our last write was not yet in the cache
		// may have found nothing to write, and is decided again when it is there.
		For(&crdv1.RoutingConfig{}).
		Watches(&crdv1.RoutingConfig{}, guard.Enqueue(r.rivals), builder.WithPredicates(guard.Updates(guard.SpecChanged))).
		WatchesRawSource(source.Channel(again, &handler.EnqueueRequestForObject{}))
	for _, kind := range crdv1.MemberKinds() {
		b = b.Watches(kind.New(), guard.Enqueue(r.ofMember))
	}
	return b.Complete(r)
}

// Index makes the indexes that a Reconciler reads by.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for name, index := range map[string]client.IndexerFunc{indexKey: byKey, member.IndexNamed: byMember} {
		if err := indexer.IndexField(ctx, &crdv1.RoutingConfig{}, name, index); err != nil {
			return fmt.Errorf("index RoutingConfigs by %s: %w", name, err)
		}
	}
	return nil
}

// byKey returns the routing key of a RoutingConfig.
func byKey(o client.Object) []string {
	c, ok := o.(*crdv1.RoutingConfig)
	if !ok {
		return nil
	}
	return []string{c.RoutingKey()}
}

// byMember returns the members of a RoutingConfig, each once.
func byMember(o client.Object) []string {
	c, ok := o.(*crdv1.RoutingConfig)
	if !ok {
		return nil
	}
	var out []string
	for _, m := range routing.Named(c) {
		out = append(out, routing.NameIn(m).String())
	}
	return out
}

// rivals leads from a RoutingConfig that came, changed or went to the others
// with its key: the key may be theirs now.
func (r *Reconciler) rivals(ctx context.Context, o client.Object) []reconcile.Request {
	c, ok := o.(*crdv1.RoutingConfig)
	if !ok {
		return nil
	}
	var out []reconcile.Request
	for _, request := range r.list(ctx, client.MatchingFields{indexKey: c.RoutingKey()}) {
		if request.Name != c.Name {
			out = append(out, request)
		}
	}
	return out
}

// ofMember leads from a member to the RoutingConfigs that name it.
func (r *Reconciler) ofMember(ctx context.Context, o client.Object) []reconcile.Request {
	m, ok := o.(crdv1.Member)
	if !ok {
		return nil
	}
	return r.list(ctx, client.MatchingFields{member.IndexNamed: member.NameOf(m).String()})
}

// list returns requests for the RoutingConfigs that the options select.
func (r *Reconciler) list(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	return guard.Requests(ctx, r.config.Client, &crdv1.RoutingConfigList{}, options...)
}
