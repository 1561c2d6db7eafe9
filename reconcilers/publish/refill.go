package publish

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// Again brings objects to a controller that are to be looked at although they
// have not changed.
type Again = chan ctrlevent.GenericEvent

// Objects knows every object that has a fact of its own on the log. Make one
// with NewObjects.
type Objects struct {
	client client.Reader

	// RoutingConfigs and ForkedWorkloads lead to the controllers of these kinds,
	// which have to read from them.
	RoutingConfigs, ForkedWorkloads Again
}

// NewObjects reads objects from the given client, which may be a cache.
func NewObjects(c client.Reader) *Objects {
	return &Objects{client: c, RoutingConfigs: make(Again), ForkedWorkloads: make(Again)}
}

// Keys gives the key of each fact that has to be on a log that is whole.
//
// +kubebuilder:rbac:groups=signadot.com,resources=routingconfigs;forkedworkloads,verbs=get;list;watch
func (o *Objects) Keys(ctx context.Context) ([]event.Key, error) {
	configs, workloads, err := o.list(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[event.Key]bool{}
	var keys []event.Key
	add := func(k event.Key) {
		if !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	for i := range configs.Items {
		add(event.RoutingKey(configs.Items[i].RoutingKey()))
	}
	for i := range workloads.Items {
		w := &workloads.Items[i]
		add(event.Workload(crdv1.KindForkedWorkload, w.Namespace, w.Name))
	}
	return keys, nil
}

// Refill has every object looked at once more, so that each states its fact
// again. It returns when all have been handed to their controllers.
func (o *Objects) Refill(ctx context.Context) error {
	configs, workloads, err := o.list(ctx)
	if err != nil {
		return err
	}
	for i := range workloads.Items {
		if err := hand(ctx, o.ForkedWorkloads, workloads.Items[i].DeepCopy()); err != nil {
			return err
		}
	}
	for i := range configs.Items {
		if err := hand(ctx, o.RoutingConfigs, configs.Items[i].DeepCopy()); err != nil {
			return err
		}
	}
	return nil
}

// list reads all objects that have facts.
func (o *Objects) list(ctx context.Context) (*crdv1.RoutingConfigList, *crdv1.ForkedWorkloadList, error) {
	configs, workloads := &crdv1.RoutingConfigList{}, &crdv1.ForkedWorkloadList{}
	if err := o.client.List(ctx, configs, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list RoutingConfigs: %w", err)
	}
	if err := o.client.List(ctx, workloads, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list ForkedWorkloads: %w", err)
	}
	return configs, workloads, nil
}

// hand gives one object to a controller.
func hand(ctx context.Context, to Again, o client.Object) error {
	select {
	case to <- ctrlevent.GenericEvent{Object: o}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
