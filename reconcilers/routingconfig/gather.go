package routingconfig

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routing"
)

// gather reads all that counts for a RoutingConfig from the cache.
func (r *Reconciler) gather(ctx context.Context, config *crdv1.RoutingConfig) (Input, error) {
	c := r.config.Client
	in := Input{Routing: routing.Of(config, nil, publish.HeadersOf(r.config.KeyHeaders)), Namespaces: r.config.Namespaces}
	var err error
	if in.SameKey, err = withKey(ctx, c, config.RoutingKey()); err != nil {
		return in, err
	}
	if former := config.Annotations[AnnotationDeclaredKey]; former != "" && former != config.RoutingKey() {
		if in.FormerKey, err = withKey(ctx, c, former); err != nil {
			return in, err
		}
	}
	for _, m := range in.Named() {
		if !in.mayRead(m.Namespace) {
			continue
		}
		found, err := member.Get(ctx, c, m.Kind, m.Namespace, m.Name)
		if err != nil {
			return in, err
		}
		if found != nil {
			in.Members[member.NameOf(found)] = found
		}
	}
	return in, nil
}

// withKey lists the RoutingConfigs that have a key.
func withKey(ctx context.Context, c client.Reader, key string) ([]crdv1.RoutingConfig, error) {
	var list crdv1.RoutingConfigList
	if err := c.List(ctx, &list, client.MatchingFields{indexKey: key}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list RoutingConfigs with key %q: %w", key, err)
	}
	return list.Items, nil
}
