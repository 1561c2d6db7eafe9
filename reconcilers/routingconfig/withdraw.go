package routingconfig

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/reconcilers/member"
)

// Gone cleans up after a RoutingConfig that is not in the cache. Its key was withdrawn before its
// deletion, but a leader with a stale cache may have declared it again after that. So this process's
// declaration of it is withdrawn, unless another object has the key, or an object of that name exists
// and is not in the cache yet.
func (r *Reconciler) Gone(ctx context.Context, req types.NamespacedName) error {
	name := req.Name
	r.forget(name)
	if err := r.orphanedMeshes(ctx, name, ""); err != nil {
		return err
	}
	declared, ok := r.declared.Load(name)
	if !ok {
		return nil
	}
	key, _ := declared.(string)
	others, err := member.ConfigsBy(ctx, r.config.Client, indexKey, key)
	if err != nil {
		return err
	}
	live, err := r.live(ctx, name)
	if err != nil {
		return err
	}
	if data, ok := event.Withdrawal(event.RoutingKey(key)); ok && len(others) == 0 && live.UID == "" {
		if _, err := r.put(ctx, event.Fact{Key: event.RoutingKey(key), Data: data}); err != nil {
			return err
		}
	}
	r.declared.CompareAndDelete(name, declared)
	return nil
}
