package controller

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

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
