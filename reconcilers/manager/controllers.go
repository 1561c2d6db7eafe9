package manager

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/settle"
)

// addControllers makes the controllers of all kinds part of the manager. again brings them
// objects that are to be looked at although they have not changed, by the name of the kind.
func addControllers(ctx context.Context, mgr ctrl.Manager, c kinds.Config, again map[string]publish.Again) error {
	controllers, err := kinds.Controllers(c)
	if err != nil {
		return err
	}
	if err := kinds.AddIndexes(ctx, mgr.GetFieldIndexer(), c.ExternalWorkloads.Also()...); err != nil {
		return err
	}
	for kind, controller := range controllers {
		if err := controller.Setup(mgr, again[kind], options()); err != nil {
			return fmt.Errorf("set up the controller of %s: %w", kind, err)
		}
	}
	return nil
}

// How controllers work.
const (
	// workers look at objects of one kind at the same time.
	workers = 4
	// firstRetry and longestRetry bound the wait after an error. The longest is
	// how much later than possible an object may be looked at once what it
	// needs (such as the log) is back.
	firstRetry, longestRetry = 5 * time.Millisecond, 10 * time.Second
	// moment is how long what happens to an object adds up after a look at it.
	moment = 200 * time.Millisecond
	// reconciliation bounds one look at one object.
	reconciliation = 30 * time.Second
)

// options are those of every controller. Each needs a rate limiter of its own.
func options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   reconciliation,
		NewQueue:                settle.Queue(moment),
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			firstRetry, longestRetry),
	}
}
