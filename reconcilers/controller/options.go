package controller

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

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
		NewQueue:                queueWith(moment),
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			firstRetry, longestRetry),
	}
}
