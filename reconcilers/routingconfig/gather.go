package routingconfig

import (
	"context"

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
	if in.SameKey, err = member.ConfigsBy(ctx, c, indexKey, config.RoutingKey()); err != nil {
		return in, err
	}
	if former := config.Annotations[routing.AnnotationDeclaredKey]; former != "" && former != config.RoutingKey() {
		if in.FormerKey, err = member.ConfigsBy(ctx, c, indexKey, former); err != nil {
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
	if in.Specified, err = specified(ctx, c, in); err != nil {
		return in, err
	}
	in.MeshRoutes, in.Mesh, err = r.meshRoutes(ctx, config)
	return in, err
}
