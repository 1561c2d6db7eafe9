package routingconfig

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/reconcilers/member"
)

// Gone ends a RoutingConfig that the cache does not have. Its key was withdrawn before
// it went; but a leader whose cache lagged behind may have declared it again after
// that. So what this process has declared for it is withdrawn, unless another object
// has the key, or one of that name is there and the cache has only not heard of it.
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
