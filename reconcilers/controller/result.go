package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

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
