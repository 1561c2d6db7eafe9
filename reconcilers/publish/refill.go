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

	// Live reads past every cache. There needs it.
	Live client.Reader
	// RoutingConfigs leads to the controller of that kind, Members to those of the
	// kinds of crdv1.MemberKinds. All have to read from them.
	RoutingConfigs Again
	Members        map[string]Again
}

// NewObjects reads objects from the given client, which may be a cache.
func NewObjects(c client.Reader) *Objects {
	o := &Objects{client: c, RoutingConfigs: make(Again), Members: map[string]Again{}}
	for _, kind := range crdv1.MemberKinds() {
		o.Members[kind] = make(Again)
	}
	return o
}

// Keys gives the key of each fact that has to be on a log that is whole.
//
// +kubebuilder:rbac:groups=signadot.com,resources=routingconfigs;forkedworkloads;signadotexternalworkloads;virtualworkloads,verbs=get;list;watch
func (o *Objects) Keys(ctx context.Context) ([]event.Key, error) {
	configs, members, err := o.list(ctx)
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
	for _, m := range members {
		add(event.Workload(m.MemberKind(), m.GetNamespace(), m.GetName()))
	}
	return keys, nil
}

// Refill has every object looked at once more, so that each states its fact
// again. It returns when all have been handed to their controllers.
func (o *Objects) Refill(ctx context.Context) error {
	configs, members, err := o.list(ctx)
	if err != nil {
		return err
	}
	for _, m := range members {
		object, ok := m.DeepCopyObject().(client.Object)
		if !ok {
			continue
		}
		if err := hand(ctx, o.Members[m.MemberKind()], object); err != nil {
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
func (o *Objects) list(ctx context.Context) (*crdv1.RoutingConfigList, []crdv1.Member, error) {
	configs := &crdv1.RoutingConfigList{}
	forks, externals, virtuals := &crdv1.ForkedWorkloadList{}, &crdv1.SignadotExternalWorkloadList{}, &crdv1.VirtualWorkloadList{}
	for _, list := range []client.ObjectList{configs, forks, externals, virtuals} {
		if err := o.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, nil, fmt.Errorf("list the objects that have facts: %w", err)
		}
	}
	var members []crdv1.Member
	for i := range forks.Items {
		members = append(members, &forks.Items[i])
	}
	for i := range externals.Items {
		members = append(members, &externals.Items[i])
	}
	for i := range virtuals.Items {
		members = append(members, &virtuals.Items[i])
	}
	return configs, members, nil
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
