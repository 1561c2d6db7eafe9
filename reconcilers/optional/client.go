package optional

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Client is a client that reads objects of optional kinds from their caches, and uses the underlying
// client for everything else. It is also the source of their events for controllers.
type Client struct {
	client.Client
	*Kinds
}

// Get reads one object.
func (c Client) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	p := c.of(o)
	if p == nil {
		return c.Client.Get(ctx, key, o, options...)
	}
	objects, err := p.reading(ctx)
	if err != nil {
		return err
	}
	if objects == nil {
		return &meta.NoKindMatchError{GroupKind: p.kind.GroupKind(), SearchedVersions: []string{p.kind.Version}}
	}
	o.GetObjectKind().SetGroupVersionKind(objects.kind)
	return objects.cache.Get(ctx, key, o, options...)
}

// List reads objects.
func (c Client) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	p := c.of(list)
	if p == nil {
		return c.Client.List(ctx, list, options...)
	}
	objects, _ := p.reading(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("wait for %s: %w", p, ctx.Err())
	}
	if objects != nil {
		list.GetObjectKind().SetGroupVersionKind(objects.kind.GroupVersion().WithKind(objects.kind.Kind + "List"))
		return objects.cache.List(ctx, list, options...)
	}
	return meta.SetList(list, nil)
}

// of returns the presence of the kind of an object or a list, which is Unstructured; nil if the kind is
// not optional.
func (k *Kinds) of(o interface{ GetObjectKind() schema.ObjectKind }) *presence {
	kind := o.GetObjectKind().GroupVersionKind().GroupKind()
	switch o.(type) {
	case *unstructured.Unstructured:
	case *unstructured.UnstructuredList:
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	default:
		return nil
	}
	return k.all[kind]
}

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
