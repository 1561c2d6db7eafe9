package resource

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// gather reads the object that runs the units of a Resource, which is nil if the Resource owns none, and
// the outputs of the units.
func (r *Reconciler) gather(ctx context.Context, o *crdv1.Resource) (Input, error) {
	in := Input{Resource: o, Outputs: o.Status.Outputs.DeepCopy()}
	err := read(ctx, r.config.Client, &in)
	return in, err
}

// unseen reads the object that runs the units past the cache, which may not have it yet.
func (r *Reconciler) unseen(ctx context.Context, in *Input) error {
	return read(ctx, r.config.Live, in)
}

// read reads the object that runs the units of a Resource.
func read(ctx context.Context, from client.Reader, in *Input) error {
	m := &crdv1.SignadotObjectLifecycleMethods{}
	err := from.Get(ctx, client.ObjectKey{Name: in.Resource.Name}, m)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read SignadotObjectLifecycleMethods %s: %w", in.Resource.Name, err)
	}
	if err == nil && apply.IsOwned(m, in.Resource.UID) {
		in.Methods = m
	}
	return nil
}

// values returns the outputs of the preStart units, by key, or the key of one that is missing.
func (r *Reconciler) values(ctx context.Context, in Input) (all map[string][]byte, lacks string, err error) {
	if err := r.store.Sync(ctx, in.Methods); err != nil {
		return nil, "", err
	}
	out := map[string][]byte{}
	for _, key := range keys(in.Methods) {
		value, found, err := r.store.Get(ctx, in.Methods, key)
		if err != nil || !found {
			return nil, key, err
		}
		out[key] = value
	}
	return out, "", nil
}
