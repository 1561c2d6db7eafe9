package routingconfig

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routing"
)

// leave ends the declaration of a key by its holder, which is being deleted: it declares the content of
// the successor instead, or withdraws the key if there is none. Without it the log would lack the key
// until the successor is reconciled, and requests with it would reach the baseline. It also records the
// declaration in memory, since another process may have made it: if the successor is deleted in the
// meantime, Gone withdraws it.
func (r *Reconciler) leave(ctx context.Context, in Input) error {
	r.declared.Store(in.Config.Name, in.Config.RoutingKey())
	if successor := in.successor(); successor != nil {
		if err := r.handOver(ctx, successor); !publish.Refused(err) {
			return err
		}
	}
	_, err := r.put(ctx, Withdrawn(in.Config, in.Config.RoutingKey()))
	return err
}

// handOver declares the key for a successor, after adding the finalizer and the annotation to it. It
// returns a conflict if the live successor differs from the cached one; the watch event then causes a
// retry.
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

// giveUp withdraws the key that this object declared before, unless another RoutingConfig may declare
// it now. The annotation is the only record of that key and is cleared next, so the other object is
// confirmed with an uncached read: a conflict if it is deleted or has another key.
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
		return apply.Overtaken(crdv1.KindRoutingConfig, in.Config.Name, "no object in the cache has routing key "+former+" any more")
	}
	_, err := r.put(ctx, Withdrawn(in.Config, former))
	return err
}

// clearNote removes the annotation of an object that declares nothing: the key in it has been withdrawn
// or belongs to another object. If the object gets that key again, it is not its holder.
func (r *Reconciler) clearNote(ctx context.Context, in Input) error {
	noted := in.Config.Annotations[routing.AnnotationDeclaredKey]
	if noted == "" || noted == in.Config.RoutingKey() && in.carried() {
		return nil
	}
	return r.writer.AddFinalizer(ctx, in.Config, map[string]string{routing.AnnotationDeclaredKey: ""})
}

// confirmUnclaimed returns a conflict if this object is about to declare a key for the first time and
// another object, according to an uncached read, holds the key.
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

// overtaken returns a conflict if the object has been replaced by another one of the same name, which
// then has the key.
func (r *Reconciler) overtaken(ctx context.Context, c *crdv1.RoutingConfig) error {
	live, err := r.live(ctx, c.Name)
	if err == nil && live.UID != "" && live.UID != c.UID {
		return apply.Overtaken(crdv1.KindRoutingConfig, c.Name, "it was replaced by another object of the same name")
	}
	return err
}

// live reads a RoutingConfig from the API server. The result has no UID if it does not exist.
func (r *Reconciler) live(ctx context.Context, name string) (*crdv1.RoutingConfig, error) {
	c := &crdv1.RoutingConfig{}
	if err := r.config.Live.Get(ctx, client.ObjectKey{Name: name}, c); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read RoutingConfig %s: %w", name, err)
	}
	return c, nil
}

// delete withdraws the object's declaration, or hands it over, and removes the finalizer. It returns
// the time until the next sync of an object that waits for meshes.
func (r *Reconciler) delete(ctx context.Context, in Input) (time.Duration, error) {
	if err := r.overtaken(ctx, in.Config); err != nil {
		return 0, err
	}
	if err := r.giveUp(ctx, in); err != nil {
		return 0, err
	}
	r.settle(in)
	if in.holds() {
		if err := r.leave(ctx, in); err != nil {
			return 0, err
		}
	}
	if after, err := r.endMeshes(ctx, in); err != nil || after > 0 {
		return after, err
	}
	return 0, r.writer.RemoveFinalizer(ctx, in.Config)
}
