package routingconfig

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
)

// indexKey finds RoutingConfigs by routing key.
const indexKey = "routingKey"

// Watch adds the watches of other RoutingConfigs with the same key, and of members.
func (r *Reconciler) Watch(b *builder.Builder, _ ctrl.Manager) error {
	b.Watches(&crdv1.RoutingConfig{}, controller.Enqueue(r.rivals), builder.WithPredicates(controller.Updates(controller.SpecChanged)))
	for _, kind := range crdv1.MemberKinds() {
		b.Watches(kind.New(), controller.Enqueue(r.ofMember))
	}
	for _, kind := range crdv1.MeshKinds() {
		b.Owns(kind.New())
	}
	return nil
}

// Index makes the indexes that a Reconciler reads by.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &crdv1.RoutingConfig{}, indexKey, byKey),
		indexer.IndexField(ctx, &crdv1.RoutingConfig{}, member.IndexNamed, byMember))
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
	return lists.Map(routing.Named(c), func(m crdv1.SandboxedWorkload) string { return routing.NameIn(m).String() })
}

// rivals maps a RoutingConfig that was created, changed or deleted to the others with its key, which
// may now get it.
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

// ofMember maps a member to the RoutingConfigs that name it.
func (r *Reconciler) ofMember(ctx context.Context, o client.Object) []reconcile.Request {
	m, ok := o.(crdv1.Member)
	if !ok {
		return nil
	}
	return r.list(ctx, client.MatchingFields{member.IndexNamed: member.NameOf(m).String()})
}

// list returns requests for the RoutingConfigs that the options select.
func (r *Reconciler) list(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	return controller.Requests(ctx, r.config.Client, &crdv1.RoutingConfigList{}, options...)
}
