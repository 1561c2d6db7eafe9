package baseline

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// PodsWithSidecar returns the pods of a member's baseline that have a proxy (HasProxy), as
// namespace/name; none when there is no baseline, or it needs none. It reads by the
// selector of the baseline, best from a cache.
func PodsWithSidecar(ctx context.Context, c client.Reader, m crdv1.Member) ([]string, error) {
	ref, ok := m.BaselineRef()
	if !ok || NeedsNone(m) || !Accept("spec.baseline", ref, m.GetNamespace()).IsTrue() {
		return nil, nil
	}
	w, err := Read(ctx, c, ref)
	if err != nil || w == nil {
		return nil, err
	}
	pods, _, err := Pods(ctx, c, w)
	if err != nil {
		return nil, err
	}
	out := lists.Map(lists.Filter(lists.Pointers(pods), HasProxy), func(o *corev1.Pod) string {
		return o.Namespace + "/" + o.Name
	})
	return out, nil
}

// HasProxy reports whether a pod of a baseline can receive requests and has a DevMesh sidecar, ready or
// not. Such a sidecar must know a key before the key is reported as ready. A Pending pod gets no requests;
// it can stay unscheduled for days, and must not delay every new sandbox for that long.
func HasProxy(pod *corev1.Pod) bool {
	present, _ := sidecarOf(pod)
	return present && pod.Status.Phase != corev1.PodPending && counts(pod)
}
