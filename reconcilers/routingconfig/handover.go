package routingconfig

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routing"
)

// leave ends what the holder of a key, which is being deleted, has declared: it declares
// what the successor says in its place, or withdraws the key where there is none. The successor
// would do so by itself later; until then the log would not know the key, and requests
// with it would reach the baseline. What it has declared is remembered here, too, since the
// process that declared it may be another one: a successor that goes meanwhile leaves it to gone.
func (r *Reconciler) leave(ctx context.Context, in Input) error {
	r.declared.Store(in.Config.Name, in.Config.RoutingKey())
	if successor := in.successor(); successor != nil {
		err := r.handOver(ctx, successor)
		if !publish.Refused(err) {
			return err
		}
	}
	_, err := r.put(ctx, Withdrawn(in.Config, in.Config.RoutingKey()))
	return err
}

// handOver declares what a successor says, having noted on it first that it will be there. It
// returns a conflict when the successor is not what the cache shows, which will hear of that.
func (r *Reconciler) handOver(ctx context.Context, successor *crdv1.RoutingConfig) error {
	live, err := r.live(ctx, successor.Name)
	if err != nil {
		return err
	}
	if live.UID != successor.UID || live.DeletionTimestamp != nil || live.RoutingKey() != successor.RoutingKey() {
		return apply.Overtaken(crdv1.KindRoutingConfig, successor.Name, "it no longer waits for the routing key")
	}
	in, err := r.gather(ctx, live)
	if err != nil {
		return err
	}
	note := map[string]string{}
	if live.Annotations[routing.AnnotationDeclaredKey] == "" { // Else there is one that it has to withdraw first.
		note[routing.AnnotationDeclaredKey] = live.RoutingKey()
	}
	if err := r.writer.AddFinalizer(ctx, live, note); err != nil {
		return err
	}
	r.declared.Store(live.Name, live.RoutingKey())
	_, err = r.declare(ctx, live, in.Declaration())
	return err
}

// giveUp withdraws the key that this object declared before, unless another RoutingConfig
// may declare it now. The annotation is the only record of that key and is cleared next, so
// the other object is confirmed with an uncached read: a conflict if it is gone or has
// another key.
func (r *Reconciler) giveUp(ctx context.Context, in Input) error {
	former, others := in.formerKey()
	if former == "" {
		return nil
	}
	for i := range others {
		live, err := r.live(ctx, others[i].Name)
		if err != nil {
			return err
		}
		if live.UID == others[i].UID && live.RoutingKey() == former {
			return nil
		}
	}
	if len(others) > 0 {
		return apply.Overtaken(crdv1.KindRoutingConfig, in.Config.Name, "nobody has routing key "+former+" any more of those that the cache shows")
	}
	_, err := r.put(ctx, Withdrawn(in.Config, former))
	return err
}

// clearNote takes the note off an object that declares nothing: that it has declared another
// key, which is withdrawn or somebody else's by now. Should it come back to that key, it
// is not its holder.
func (r *Reconciler) clearNote(ctx context.Context, in Input) error {
	noted := in.Config.Annotations[routing.AnnotationDeclaredKey]
	if noted == "" || noted == in.Config.RoutingKey() && in.carried() {
		return nil
	}
	return r.writer.AddFinalizer(ctx, in.Config, map[string]string{routing.AnnotationDeclaredKey: ""})
}

// confirmUnclaimed returns a conflict when another object has the key that this one is about to
// declare for the first time, and the cache has only not heard of it.
func (r *Reconciler) confirmUnclaimed(ctx context.Context, in Input) error {
	if in.Config.Annotations[routing.AnnotationDeclaredKey] == in.Config.RoutingKey() {
		return nil
	}
	for i := range in.SameKey {
		other := &in.SameKey[i]
		if other.UID == in.Config.UID {
			continue
		}
		live, err := r.live(ctx, other.Name)
		if err != nil {
			return err
		}
		if live.UID == other.UID && live.RoutingKey() == in.Config.RoutingKey() && routing.Holder(in.Config, live) == live {
			return apply.Overtaken(crdv1.KindRoutingConfig, in.Config.Name, "RoutingConfig "+live.Name+" has its routing key")
		}
	}
	return nil
}

// overtaken returns a conflict when the object of this name is another one by now: the
// key is that one's, and the cache will hear of it.
func (r *Reconciler) overtaken(ctx context.Context, c *crdv1.RoutingConfig) error {
	live, err := r.live(ctx, c.Name)
	if err == nil && live.UID != "" && live.UID != c.UID {
		return apply.Overtaken(crdv1.KindRoutingConfig, c.Name, "it was replaced by another object of the same name")
	}
	return err
}

// live reads a RoutingConfig past the cache. One that has no UID is gone.
func (r *Reconciler) live(ctx context.Context, name string) (*crdv1.RoutingConfig, error) {
	c := &crdv1.RoutingConfig{}
	if err := r.config.Live.Get(ctx, client.ObjectKey{Name: name}, c); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read RoutingConfig %s: %w", name, err)
	}
	return c, nil
}
