package pods

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/optional"
)

// Client is the client of controllers. It also reads the pods of baselines and has a source of their
// events, for baseline.Pods and baseline.Watch.
type Client struct {
	optional.Client
	*Pods
}

var (
	_ baseline.PodSource     = Client{}
	_ baseline.RolloutSource = Client{}
)

// PodsOf returns the pods of a workload, as Pods.PodsOf does. The first call queries those of all
// baselines together, since each member is reconciled after a start.
func (c Client) PodsOf(ctx context.Context, w *baseline.Workload, selector labels.Selector) ([]corev1.Pod, error) {
	c.first.Do(func() { c.queryAll(ctx, c.baselines(ctx)) })
	return c.Pods.PodsOf(ctx, w, selector)
}

// baselines returns the baselines of all members. Those that cannot be read are left out: they are
// queried one by one.
func (c Client) baselines(ctx context.Context) map[crdv1.ObjectRef]*baseline.Workload {
	all := map[crdv1.ObjectRef]*baseline.Workload{}
	for _, kind := range crdv1.MemberKinds() {
		list := kind.NewList()
		_ = c.List(ctx, list, client.UnsafeDisableDeepCopy)
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			m, _ := o.(crdv1.Member)
			if ref, has := m.BaselineRef(); has && all[ref] == nil {
				all[ref], _ = baseline.Read(ctx, c, ref)
			}
			return nil
		})
	}
	return all
}
