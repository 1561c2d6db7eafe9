package optional

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// listener is a controller that gets the events of a kind.
type listener struct {
	*presence
	ctx        context.Context
	queue      workqueue.TypedRateLimitingInterface[reconcile.Request]
	handler    handler.EventHandler
	predicates []predicate.Predicate
}

// Source returns a source of the objects of a kind. The predicates are asked about each
// object, and not about the kind.
func (k *Kinds) Source(kind schema.GroupKind, h handler.EventHandler, predicates ...predicate.Predicate) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		p := k.all[kind]
		if p == nil {
			return &meta.NoKindMatchError{GroupKind: kind}
		}
		l := listener{presence: p, ctx: ctx, queue: queue, handler: h, predicates: predicates}
		p.mu.Lock()
		p.listeners = append(p.listeners[:len(p.listeners):len(p.listeners)], l)
		present := p.objects
		p.mu.Unlock()
		if present != nil {
			l.attach(present)
		}
		return nil
	})
}

// attach sends the controller events of objects, starting with the existing ones.
func (l listener) attach(to *objects) {
	ctx, cancel := context.WithCancel(l.ctx)
	context.AfterFunc(to.ctx, cancel)
	err := source.Kind[client.Object](to.cache, empty(to.kind), l.handler, l.predicates...).Start(ctx, l.queue)
	if err != nil {
		l.logger.Error("cannot watch an optional kind", "error", err)
	}
}

// notify notifies the controller that the kind appeared or disappeared.
func (l listener) notify() {
	if l.ctx.Err() == nil {
		l.handler.Generic(l.ctx, event.GenericEvent{Object: empty(l.kind.GroupVersionKind)}, l.queue)
	}
}
