package virtualworkload

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
)

// gather reads all that counts for a virtual workload from the cache.
func gather(ctx context.Context, c client.Reader, w *crdv1.VirtualWorkload) (Input, error) {
	in := Input{Workload: w}
	if !accept(w).IsTrue() {
		return in, nil
	}
	services, err := baseline.ServicesIn(ctx, c, w.Namespace)
	if err == nil {
		in.Services, err = in.Look(ctx, c, w, services)
	}
	return in, err
}
