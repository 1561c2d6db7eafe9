package externalworkload

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// readCaptures reads the captures that are attached for the external workload.
//
// +kubebuilder:rbac:groups=signadot.com,resources=trafficcaptures,verbs=get;list;watch
func (in *Input) readCaptures(ctx context.Context, c client.Reader) error {
	var all crdv1.TrafficCaptureList
	if err := c.List(ctx, &all, client.InNamespace(in.Workload.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list TrafficCaptures of namespace %s: %w", in.Workload.Namespace, err)
	}
	name := crdv1.CapturedName(crdv1.KindExternalWorkload, in.Workload.Name)
	in.Captures = lists.Filter(all.Items, func(t crdv1.TrafficCapture) bool { return t.AttachedTo(name) })
	return nil
}

// byCapture maps a capture to the external workloads that it is attached for.
func byCapture(_ context.Context, o client.Object) (out []reconcile.Request) {
	t, is := o.(*crdv1.TrafficCapture)
	if !is {
		return nil
	}
	for _, name := range lists.Unique(lists.Map(t.Status.Pods, func(p crdv1.CapturedPod) string { return p.Workload })) {
		if kind, name := crdv1.CapturedMember(name); kind == crdv1.KindExternalWorkload {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: t.Namespace, Name: name}})
		}
	}
	return out
}

// captureChanged filters out updates of a capture that no Service and no endpoint depends on.
func captureChanged(before, after client.Object) bool {
	b, okB := before.(*crdv1.TrafficCapture)
	a, okA := after.(*crdv1.TrafficCapture)
	return !okA || !okB || fmt.Sprint(b.Status.Pods, b.Status.Redirected) != fmt.Sprint(a.Status.Pods, a.Status.Redirected)
}
