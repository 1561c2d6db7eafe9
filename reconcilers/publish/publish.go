// Package publish is the reconcilers' interface to the routing log: they put facts on it, and refill it
// in a new epoch.
//
// The log itself is written by eventbus/publisher, which runs on the leader only. After a change of its
// epoch it reads the keys of all objects (Objects), requeues every object (Refill), and marks the log
// complete when each key has been put or settled. So reconcilers must, whenever they reconcile an
// object with a key, either Put its fact or Settle its key. If several objects have one key, only the
// holder of the key does so, and the others must not settle it.
package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// Publisher puts facts on the routing log.
type Publisher interface {
	// Put puts a fact on the log, unless the newest fact of its key is equal, and returns its position
	// once it is on disk. After an error other than Refused the object has to be reconciled again,
	// since the fact may be out of date.
	Put(ctx context.Context, f event.Fact) (event.Pos, error)
	// Settle reports that the object behind the key was reconciled and has no fact.
	Settle(key event.Key)
}

// ReasonLogUnavailable is the reason of a condition about an object with a fact that could not be put
// on the routing log just now.
const ReasonLogUnavailable = "LogUnavailable"

// ReasonFactRefused is the reason of a condition about an object with a fact that the log will never
// accept.
const ReasonFactRefused = "FactRefused"

// Refused reports whether the error of a Put means that the log will never take
// this fact, so that trying again does not help until the object changes.
func Refused(err error) bool { return errors.Is(err, eventbus.ErrRefused) }

// WhyRefused returns the problem of the fact, from an error for which Refused is true.
func WhyRefused(err error) string {
	_, why, _ := strings.Cut(err.Error(), eventbus.ErrRefused.Error()+": ")
	return cmp.Or(why, err.Error())
}

// PutTimeout bounds one Put, so that a log that cannot be reached does not hold
// a worker for ever.
const PutTimeout = 10 * time.Second

// There reports whether an object has this key, by an uncached read, since a cache may lack it. An
// object that cannot be read, because its namespace is no longer allowed to the operator, counts as
// missing.
func (o *Objects) There(ctx context.Context, key event.Key) (bool, error) {
	data, _ := event.Withdrawal(key)
	switch gone := data.(type) {
	case *factv1.WorkloadWithdrawn:
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(crdv1.GroupVersion().WithKind(gone.GetWorkload().GetKind()))
		err := o.Live.Get(ctx, client.ObjectKey{Namespace: gone.GetWorkload().GetNamespace(), Name: gone.GetWorkload().GetName()}, live)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	case *factv1.RoutingWithdrawn:
		var configs crdv1.RoutingConfigList
		if err := o.Live.List(ctx, &configs); err != nil {
			return false, fmt.Errorf("list RoutingConfigs: %w", err)
		}
		return slices.ContainsFunc(configs.Items, func(c crdv1.RoutingConfig) bool { return c.RoutingKey() == gone.GetRoutingKey() }), nil
	}
	return false, nil
}

// clusterConfig is the ConfigMap of the operator's namespace that holds its
// configuration, as the chart makes it.
const clusterConfig = "cluster-config"

// KeyHeaders returns the fact with the custom headers that carry routing keys. Its cause is the
// operator's configuration in this namespace.
func KeyHeaders(names []string, namespace string) event.Fact {
	return event.Fact{
		Key:   event.KeyHeaders,
		Cause: event.Cause{Kind: "ConfigMap", Namespace: namespace, Name: clusterConfig},
		Data:  &factv1.KeyHeadersDeclared{Names: names},
	}
}

// HeadersOf returns the headers that the fact of KeyHeaders names; none of the zero Fact.
func HeadersOf(f event.Fact) []string {
	declared, _ := f.Data.(*factv1.KeyHeadersDeclared)
	return declared.GetNames()
}

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
