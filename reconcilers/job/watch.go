package job

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/controller"
)

// Watch adds the watches of jobs, pods, sandboxes and route groups, and the runnable that ends all calls to
// runners with leadership.
func (r *Reconciler) Watch(b *builder.Builder, mgr ctrl.Manager) error {
	b.WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.queue = q
		return nil
	}))
	b.Watches(&crdv1.Job{}, r.enqueue(ofJob))
	b.WatchesRawSource(r.config.Pods.Source(r.enqueue(ofPod)))
	b.Watches(&crdv1.SignadotSandbox{}, r.enqueue(r.ofTarget))
	b.Watches(&crdv1.SignadotRouteGroup{}, r.enqueue(r.ofTarget))
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		r.close()
		return nil
	}))
}

// enqueue returns a handler that wakes the groups of an object.
func (r *Reconciler) enqueue(of func(context.Context, client.Object) []types.NamespacedName) handler.EventHandler {
	wake := func(ctx context.Context, o client.Object) {
		for _, name := range of(ctx, o) {
			r.wake(name, soon)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			wake(ctx, e.Object)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			wake(ctx, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			wake(ctx, e.Object)
		},
	}
}

// ofJob returns the group of a job.
func ofJob(_ context.Context, o client.Object) []types.NamespacedName {
	if j, is := o.(*crdv1.Job); is {
		return []types.NamespacedName{{Namespace: j.Spec.RunnerGroup.Namespace, Name: j.Spec.RunnerGroup.Name}}
	}
	return nil
}

// ofPod returns the group that owns a pod.
func ofPod(_ context.Context, o client.Object) []types.NamespacedName {
	if owner, is := controller.OwnerOf(o, crdv1.KindJobRunnerGroup); is {
		return []types.NamespacedName{owner}
	}
	return nil
}

// ofTarget returns the groups with jobs that have not ended and run against a sandbox or a route group.
func (r *Reconciler) ofTarget(ctx context.Context, o client.Object) []types.NamespacedName {
	var all crdv1.JobList
	if err := r.config.Client.List(ctx, &all, client.MatchingFields{IndexTarget: target(o)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	seen := map[types.NamespacedName]bool{}
	var out []types.NamespacedName
	for i := range all.Items {
		j := &all.Items[i]
		for _, name := range ofJob(ctx, j) {
			if s := j.Status.State; (s == nil || s.Terminated == nil) && !seen[name] {
				seen[name], out = true, append(out, name)
			}
		}
	}
	return out
}
