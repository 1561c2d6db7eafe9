package publish

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// Again requeues objects in a controller without a change of them.
type Again = chan ctrlevent.GenericEvent

// Objects lists every object with a fact on the log. Create one with NewObjects.
type Objects struct {
	client client.Reader

	// Live reads from the API server. There needs it.
	Live client.Reader
	// Again has the channel of the controller of each kind with facts. All must be drained.
	Again map[string]Again
}

// NewObjects reads objects from the given client, which may be a cache.
func NewObjects(c client.Reader) *Objects {
	o := &Objects{client: c, Again: map[string]Again{crdv1.KindRoutingConfig: make(Again)}}
	for _, kind := range crdv1.MemberKinds() {
		o.Again[kind.Name] = make(Again)
	}
	return o
}

// Keys returns the key of each fact that has to be on a log that is whole.
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

// Refill requeues every object, so that each publishes its fact again. It returns after all have been
// handed to their controllers.
func (o *Objects) Refill(ctx context.Context) error {
	configs, members, err := o.list(ctx)
	if err != nil {
		return err
	}
	for _, m := range members {
		if err := hand(ctx, o.Again[m.MemberKind()], m); err != nil {
			return err
		}
	}
	for i := range configs.Items {
		if err := hand(ctx, o.Again[crdv1.KindRoutingConfig], &configs.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// list reads all objects that have facts.
func (o *Objects) list(ctx context.Context) (*crdv1.RoutingConfigList, []crdv1.Member, error) {
	configs := &crdv1.RoutingConfigList{}
	err := o.client.List(ctx, configs, client.UnsafeDisableDeepCopy)
	members, failed := Members(ctx, o.client)
	if err := errors.Join(err, failed); err != nil {
		return nil, nil, fmt.Errorf("list the objects that have facts: %w", err)
	}
	return configs, members, nil
}

// Members returns the members that the options select, in the order of crdv1.MemberKinds;
// their order within a kind is none. They are shared with the cache.
func Members(ctx context.Context, c client.Reader, options ...client.ListOption) ([]crdv1.Member, error) {
	var out []crdv1.Member
	for _, kind := range crdv1.MemberKinds() {
		list := kind.NewList()
		if err := c.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
			return nil, fmt.Errorf("list objects of kind %s: %w", kind.Name, err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			m, ok := o.(crdv1.Member)
			if !ok {
				return fmt.Errorf("a list of kind %s has a %T", kind.Name, o)
			}
			out = append(out, m)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// hand hands a copy of one object to a controller.
func hand(ctx context.Context, to Again, shared crdv1.Object) error {
	o, _ := shared.DeepCopyObject().(client.Object)
	select {
	case to <- ctrlevent.GenericEvent{Object: o}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
