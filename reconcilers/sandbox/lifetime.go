package sandbox

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/workflows/spec"
)

// expire deletes a sandbox at the end of its lifetime, and reports whether it did. Otherwise it returns
// the remaining lifetime; zero if it has none. Accepted reports a lifetime that cannot be parsed.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotsandboxes,verbs=delete
func (r *Reconciler) expire(ctx context.Context, s *crdv1.SignadotSandbox) (left time.Duration, over bool, err error) {
	at, ends, err := spec.Expires(s)
	if err != nil || !ends || s.DeletionTimestamp != nil {
		return 0, false, nil
	}
	if left = at.Sub(r.config.Now()); left > 0 {
		return left, false, nil
	}
	ctrl.LoggerFrom(ctx).Info("The lifetime of a sandbox is over", "sandbox", s.Name, "since", at)
	// Only in the version that was read: its lifetime may have been extended since.
	err = r.writer.Client.Delete(ctx, s, client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, false, fmt.Errorf("delete %s at the end of its lifetime: %w", apply.Describe(s), err)
	}
	return 0, true, nil
}

// sooner returns the shorter of two requeue delays, of which zero is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
