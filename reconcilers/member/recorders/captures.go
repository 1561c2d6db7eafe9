package recorders

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// AttachedTo reads the captures that are attached for a member.
//
// +kubebuilder:rbac:groups=signadot.com,resources=trafficcaptures,verbs=get;list;watch
func AttachedTo(ctx context.Context, c client.Reader, m crdv1.Member) ([]crdv1.TrafficCapture, error) {
	var all crdv1.TrafficCaptureList
	if err := c.List(ctx, &all, client.InNamespace(m.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list TrafficCaptures of namespace %s: %w", m.GetNamespace(), err)
	}
	name := crdv1.CapturedName(m.MemberKind(), m.GetName())
	return lists.Filter(all.Items, func(t crdv1.TrafficCapture) bool { return t.AttachedTo(name) }), nil
}

// Members returns a function that maps a capture to the members of a kind that it is attached for.
func Members(kind string) func(context.Context, client.Object) []reconcile.Request {
	return func(_ context.Context, o client.Object) (out []reconcile.Request) {
		t, is := o.(*crdv1.TrafficCapture)
		if !is {
			return nil
		}
		for _, name := range lists.Unique(lists.Map(t.Status.Pods, func(p crdv1.CapturedPod) string { return p.Workload })) {
			if of, name := crdv1.CapturedMember(name); of == kind {
				out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: t.Namespace, Name: name}})
			}
		}
		return out
	}
}

// Changed filters out updates of a capture that no Service and no endpoint depends on.
func Changed(before, after client.Object) bool {
	b, okB := before.(*crdv1.TrafficCapture)
	a, okA := after.(*crdv1.TrafficCapture)
	return !okA || !okB || fmt.Sprint(b.Status.Pods, b.Status.Redirected) != fmt.Sprint(a.Status.Pods, a.Status.Redirected)
}
