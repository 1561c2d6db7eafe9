package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// afterConflict gives the cache time to hear of the newer version.
const afterConflict = 20 * time.Millisecond

// result turns what came of a look at an object into what controller-runtime is told. A
// version that was overtaken is no fault: where nothing else went wrong the object is looked at
// again very soon and that is not logged. Nor is the end of the process, after which somebody
// else looks again.
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

// isOvertaken reports whether all that went wrong are conflicts (apply.Overtaken). One beside
// something else is tried again no sooner than that.
func isOvertaken(err error) bool {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		return !slices.ContainsFunc(several.Unwrap(), func(err error) bool { return !isOvertaken(err) })
	}
	return apierrors.IsConflict(err)
}
