package forkedworkload

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// PodsWithSidecar gives the pods of a ForkedWorkload's baseline that requests can
// reach and that have a DevMesh sidecar, ready or not, as namespace/name; none when
// there is no baseline. It reads by the selector of the baseline, best from a cache.
func PodsWithSidecar(ctx context.Context, c client.Reader, w *crdv1.ForkedWorkload) ([]string, error) {
	if !acceptSpec(w).IsYes() {
		return nil, nil
	}
	baseline, err := deployment(ctx, c, w.Namespace, w.Spec.Baseline.Name)
	if err != nil || baseline == nil {
		return nil, err
	}
	pods, err := podsOf(ctx, c, baseline)
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range pods {
		if present, _ := sidecarOf(&pods[i]); present && counts(&pods[i]) {
			out = append(out, pods[i].Namespace+"/"+pods[i].Name)
		}
	}
	return out, nil
}
