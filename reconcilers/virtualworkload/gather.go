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
	ref, _ := w.BaselineRef()
	var err error
	if in.Baseline, err = baseline.Read(ctx, c, ref); err != nil || in.Baseline == nil {
		return in, err
	}
	if in.Services, err = baseline.ServicesIn(ctx, c, w.Namespace); err != nil {
		return in, err
	}
	if in.Pods, err = baseline.Pods(ctx, c, in.Baseline); err != nil {
		return in, err
	}
	in.Services, err = baseline.WithEndpoints(ctx, c, in.Baseline, in.Pods, in.Services)
	return in, err
}
