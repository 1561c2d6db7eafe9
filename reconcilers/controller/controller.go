// Package controller is the reconcile loop of all kinds of custom resources: an event is mapped to an
// object, the object is read, and its kind reconciles it.
//
//	Kind     the interface of a kind                                 controller.go
//	Of       the controller of a kind                                controller.go
//	options  rates, concurrency and retries                          options.go, result.go
//	queue    debounces events of an object                           queue.go
//	Enqueue  map functions and predicates, with recovery of panics   events.go
package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Kind reconciles the objects of one kind.
type Kind[O client.Object] interface {
	// Reconcile reconciles an object, and returns the time until the next reconciliation without an
	// event; zero for never. An error is retried; after is then ignored.
	Reconcile(ctx context.Context, o O) (after time.Duration, err error)
	// Gone cleans up after an object of this name that is not in the cache. It is idempotent, and may
	// be called for an object that never existed.
	Gone(ctx context.Context, name types.NamespacedName) error
	// Watch adds the watches of other kinds that requeue objects of this kind.
	Watch(b *builder.Builder, mgr ctrl.Manager) error
}

// Controller reconciles the objects of one kind.
type Controller interface {
	reconcile.Reconciler
	// Setup adds it to a manager, under this name. Objects sent to again are reconciled without an
	// event; it may be nil.
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

// Reconcile reconciles one object.
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
		// Changes of the status as well: a decision from before the last write was in the cache may
		// have skipped a write, and is repeated once the cache has it.
		For(l.empty())
	if again != nil {
		b.WatchesRawSource(source.Channel(again, &handler.EnqueueRequestForObject{}))
	}
	if err := l.kind.Watch(b, mgr); err != nil {
		return err
	}
	return b.Complete(l)
}

// afterConflict is the time until the cache should have the newer version.
const afterConflict = 20 * time.Millisecond

// result converts the result of a reconciliation to that of controller-runtime. Conflicts alone are not
// logged as errors: the object is reconciled again very soon. Nor is the end of the process, after
// which another replica reconciles the object.
func result(after time.Duration, err error) (reconcile.Result, error) {
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: after}, nil
	case errors.Is(err, context.Canceled):
		return reconcile.Result{}, nil
	case isOvertaken(err):
		return reconcile.Result{RequeueAfter: afterConflict}, nil
	}
	return reconcile.Result{}, err
}

// isOvertaken reports whether all joined errors are conflicts (apply.Overtaken). A conflict joined with
// another error is retried with the backoff of the latter.
func isOvertaken(err error) bool {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		return !slices.ContainsFunc(several.Unwrap(), func(err error) bool { return !isOvertaken(err) })
	}
	return apierrors.IsConflict(err)
}

// How controllers work.
const (
	// workers is the number of concurrent reconciliations of one kind.
	workers = 4
	// firstRetry and longestRetry bound the backoff after an error. An object may be reconciled up to
	// longestRetry after a dependency (such as the log) has recovered.
	firstRetry, longestRetry = 5 * time.Millisecond, 10 * time.Second
	// moment is how long events of an object are collected after a reconciliation.
	moment = 200 * time.Millisecond
	// reconciliation is the timeout of one reconciliation.
	reconciliation = 30 * time.Second
)

// options are those of every controller. Each needs a rate limiter of its own.
func options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   reconciliation,
		NewQueue:                queueWith(moment),
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			firstRetry, longestRetry),
	}
}

// Functions over events run inside an informer, where controller-runtime does not recover: a panic
// would end the whole process. It is logged with the object; a map function then returns no requests,
// and a predicate true, so that at worst an object is reconciled once too often.

// MapFunc returns f without its panics.
func MapFunc(f handler.MapFunc) handler.MapFunc {
	return func(ctx context.Context, o client.Object) (requests []reconcile.Request) {
		defer caught(ctx, o, func() { requests = nil })
		return f(ctx, o)
	}
}

// Updates returns a predicate that drops only updates for which changed returns false; changed may
// panic.
func Updates(changed func(before, after client.Object) bool) predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) (pass bool) {
			if e.ObjectOld == nil || e.ObjectNew == nil {
				return true
			}
			defer caught(context.Background(), e.ObjectNew, func() { pass = true })
			return changed(e.ObjectOld, e.ObjectNew)
		},
	}
}

// caught recovers from a panic, logs it, and calls instead to set the results of the function.
func caught(ctx context.Context, o client.Object, instead func()) {
	r := recover()
	if r == nil {
		return
	}
	instead()
	name := "unknown"
	if o != nil {
		name = fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())
	}
	log.FromContext(ctx).Error(fmt.Errorf("panic: %v", r), "An event handler panicked", "object", name)
}

// SpecChanged reports whether an update changes more than the status: the generation, metadata written
// by users, or the deletion timestamp. Use it for kinds with generations.
func SpecChanged(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() ||
		before.GetUID() != after.GetUID() ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!slices.Equal(before.GetFinalizers(), after.GetFinalizers())
}

// Enqueue returns a handler that enqueues the requests that f returns; f may panic.
func Enqueue(f handler.MapFunc) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(MapFunc(f))
}

// Pods are some of the pods of a cluster, with their events.
type Pods interface {
	client.Reader
	// Source returns the events, for a handler.
	Source(h handler.EventHandler) source.Source
}

// OwnerOf returns the name of the object of this kind that controls another one, with the namespace of the other one;
// false: there is none.
func OwnerOf(o client.Object, kind string) (types.NamespacedName, bool) {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.Kind != kind {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name}, true
}

// Requests returns a request for each object that the options select, of the kind of the
// list, which is empty. c is a cache, of which only a fault in this program makes that
// fail: it is logged, and there are none.
func Requests(ctx context.Context, c client.Reader, list client.ObjectList, options ...client.ListOption) []reconcile.Request {
	var out []reconcile.Request
	err := c.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...)
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			o, err := meta.Accessor(item)
			if err == nil {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: o.GetName()}})
			}
			return err
		})
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot find what an event is about")
	}
	return out
}
