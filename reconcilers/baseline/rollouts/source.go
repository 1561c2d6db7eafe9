package rollouts

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"switchyard.dev/reconcilers/baseline"
)

// listener is a controller that is told of Rollouts.
type listener struct {
	rollouts   *Rollouts
	ctx        context.Context
	queue      workqueue.TypedRateLimitingInterface[reconcile.Request]
	handler    handler.EventHandler
	predicates []predicate.Predicate
}

// Source tells a controller of Rollouts. The predicates are asked about each Rollout,
// and not about the kind.
func (r *Rollouts) Source(h handler.EventHandler, predicates ...predicate.Predicate) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		l := listener{rollouts: r, ctx: ctx, queue: queue, handler: h, predicates: predicates}
		r.mu.Lock()
		r.listeners = append(r.listeners[:len(r.listeners):len(r.listeners)], l)
		present, ready := r.life, r.ready
		r.mu.Unlock()
		if ready {
			l.attach(present)
		}
		return nil
	})
}

// attach has the controller told of the Rollouts of a life, those that are there
// already first.
func (l listener) attach(to *life) {
	ctx, cancel := context.WithCancel(l.ctx)
	context.AfterFunc(to.ctx, cancel)
	err := source.Kind[client.Object](to.cache, baseline.NewRollout(), l.handler, l.predicates...).Start(ctx, l.queue)
	if err != nil {
		l.rollouts.config.Logger.Error("A controller is not told of Rollouts", "error", err)
	}
}

// tell tells the controller that the kind has come or gone.
func (l listener) tell() {
	if l.ctx.Err() == nil {
		l.handler.Generic(l.ctx, event.GenericEvent{Object: baseline.NewRollout()}, l.queue)
	}
}
