package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

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
