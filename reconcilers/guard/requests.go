package guard

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Enqueue returns a handler of events that asks for what f gives; f may panic.
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
