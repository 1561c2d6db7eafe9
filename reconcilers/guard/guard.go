// Package guard keeps a fault in a map function or a predicate from ending the
// whole process: controller-runtime recovers from a panic in Reconcile, but not
// in what runs inside an informer. A panic is logged with the object and
// counted as "nothing to do" for a map function and "let it pass" for a
// predicate, so that at worst an object is looked at once more. Nor does such a function
// end anything when it cannot read: Requests logs that.
package guard

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// MapFunc returns f without its panics.
func MapFunc(f handler.MapFunc) handler.MapFunc {
	return func(ctx context.Context, o client.Object) (requests []reconcile.Request) {
		defer caught(ctx, o, func() { requests = nil })
		return f(ctx, o)
	}
}

// Updates returns a predicate that lets everything pass but those updates for
// which changed says false; changed may panic.
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

// caught logs a panic and lets instead set what the function gives.
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

// SpecChanged reports whether an update is more than a change of status: of the
// generation, of metadata that people write, or the beginning of deletion. Use
// it for objects whose generation the API server counts.
func SpecChanged(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() ||
		before.GetUID() != after.GetUID() ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!slices.Equal(before.GetFinalizers(), after.GetFinalizers())
}
