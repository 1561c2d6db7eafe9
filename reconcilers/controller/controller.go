// Package controller is the loop that every kind of custom resource goes through: an event
// leads to an object, the object is read, and its kind brings it into line.
//
//	Kind     what is particular to a kind                            controller.go
//	Of       the controller of a kind                                controller.go
//	options  how often, how many at once, and what is tried again    options.go, result.go
//	queue    several events within a moment give one look            queue.go
//	Enqueue  what an event leads to, whatever panics on the way      events.go
package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Kind is what is particular to the objects of one kind.
type Kind[O client.Object] interface {
	// Reconcile brings an object into line, and returns after what time to look at it again
	// although nothing has happened that leads to it; zero for never. An error means that it
	// should be tried again: then after does not count.
	Reconcile(ctx context.Context, o O) (after time.Duration, err error)
	// Gone ends what an object of this name has left, which the cache does not have. It may be
	// called again, and for one that never was.
	Gone(ctx context.Context, name types.NamespacedName) error
	// Watch adds the further events that lead to objects of the kind.
	Watch(b *builder.Builder, mgr ctrl.Manager) error
}

// Controller looks at the objects of one kind.
type Controller interface {
	reconcile.Reconciler
	// Setup makes it part of a manager, under this name. again brings objects that are to be
	// looked at although nothing has happened to them; nil: there are none.
	Setup(mgr ctrl.Manager, name string, again chan event.GenericEvent) error
}

// Of returns the controller of a kind, which reads its objects from a cache.
func Of[T any, P interface {
	*T
	client.Object
}](cache client.Reader, kind Kind[P]) Controller {
	return With(cache, func() P { return P(new(T)) }, kind)
}

// With returns the controller of a kind; empty makes an object of it to read into.
func With[O client.Object](cache client.Reader, empty func() O, kind Kind[O]) Controller {
	return loop[O]{cache, empty, kind}
}

// loop is the Controller of a kind.
type loop[O client.Object] struct {
	cache client.Reader
	empty func() O
	kind  Kind[O]
}

// Reconcile looks at one object.
func (l loop[O]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := l.empty()
	err := l.cache.Get(ctx, req.NamespacedName, o)
	switch {
	case apierrors.IsNotFound(err):
		return result(0, l.kind.Gone(ctx, req.NamespacedName))
	case err != nil:
		return result(0, fmt.Errorf("read %T %s: %w", o, strings.TrimPrefix(req.String(), "/"), err))
	}
	return result(l.kind.Reconcile(ctx, o))
}

// Setup makes the controller part of a manager.
func (l loop[O]) Setup(mgr ctrl.Manager, name string, again chan event.GenericEvent) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named(name).
		WithOptions(options()).
		// Its status, too: what was decided while our last write was not yet in the cache
		// may have found nothing to write, and is decided again when it is there.
		For(l.empty())
	if again != nil {
		b.WatchesRawSource(source.Channel(again, &handler.EnqueueRequestForObject{}))
	}
	if err := l.kind.Watch(b, mgr); err != nil {
		return err
	}
	return b.Complete(l)
}
