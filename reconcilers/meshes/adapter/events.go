package adapter

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/controller"
)

// listen has everything looked at again when a VirtualService changes, or the kind comes or
// goes. All events are one: a look is at all of them.
func (a *Adapter) listen(ctx context.Context, running *sync.WaitGroup) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	one := controller.Enqueue(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} })
	if err := a.config.Kinds.Source(VirtualServices.GroupKind(), one).Start(ctx, queue); err != nil {
		return err
	}
	context.AfterFunc(ctx, queue.ShutDown)
	running.Go(func() {
		for {
			r, end := queue.Get()
			if end {
				return
			}
			a.stir()
			queue.Done(r)
		}
	})
	return nil
}

// ServiceChanged has everything looked at again when a Service has changed that a sandbox has
// one beside: its ports count.
func (a *Adapter) ServiceChanged(o any) {
	if gone, is := o.(toolscache.DeletedFinalStateUnknown); is {
		o = gone.Obj
	}
	s, ok := o.(*corev1.Service)
	if !ok {
		return
	}
	a.mu.Lock()
	_, concerned := a.services[client.ObjectKeyFromObject(s)]
	a.mu.Unlock()
	if concerned {
		a.stir()
	}
}

// tellAll tells IstioRoutes whose reports have changed, once this process is elected, until ctx
// ends.
func (a *Adapter) tellAll(ctx context.Context) {
	select {
	case <-a.config.Elected:
		a.mu.Lock()
		if a.state != nil {
			for t := range a.state.reports {
				a.changed[t] = true
			}
		}
		a.mu.Unlock()
		a.stir() // What others were to write is to be written here now.
	case <-ctx.Done():
		return
	}
	pauses := newPauses[bool]()
	for {
		next := a.tell.Next()
		var again <-chan time.Time
		a.mu.Lock()
		changed := a.changed
		a.changed = map[Target]bool{}
		a.mu.Unlock()
		if err := a.tellThese(ctx, changed); err != nil {
			a.config.Logger.Error("IstioRoutes are not told what became of them; retrying", "error", err)
			a.mu.Lock()
			maps.Copy(a.changed, changed)
			a.mu.Unlock()
			next, again = nil, time.After(pauses.When(true))
		} else {
			pauses.Forget(true)
		}
		select {
		case <-next:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// tellThese has the IstioRoutes of some Targets looked at.
func (a *Adapter) tellThese(ctx context.Context, changed map[Target]bool) error {
	if len(changed) == 0 {
		return nil
	}
	var routes crdv1.IstioRouteList
	if err := a.config.Client.List(ctx, &routes, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range routes.Items {
		if !changed[TargetOf(&routes.Items[i])] {
			continue
		}
		select {
		case a.config.Again <- event.GenericEvent{Object: routes.Items[i].DeepCopy()}:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}
