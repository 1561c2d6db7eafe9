package routingconfig

import (
	"context"
	"slices"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingkey"
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

// Input is the input of Decide for one RoutingConfig. It must not be modified.
type Input struct {
	// Routing is the RoutingConfig with its members.
	routing.Routing
	// SameKey are all RoutingConfigs with its key, itself among them or not.
	SameKey []crdv1.RoutingConfig
	// FormerKey are all RoutingConfigs with the key that it declared before, when
	// that is another one.
	FormerKey []crdv1.RoutingConfig
	// MeshRoutes are the mesh routes that this RoutingConfig owns, by kind.
	MeshRoutes map[string][]crdv1.MeshRoute
	// meshErrs are the errors of writing mesh routes, by kind.
	meshErrs map[string]error
	// Namespaces are those in which the operator may work; empty means all.
	Namespaces []string
}

// mayRead reports whether the operator may work in a namespace. The cache has no objects of others.
func (in Input) mayRead(namespace string) bool {
	return len(in.Namespaces) == 0 || slices.Contains(in.Namespaces, namespace)
}

// holder returns the RoutingConfig that has the key: the one that declares it, however old the others
// are; if none does, the oldest, then the first by name. One that declares the key and is being deleted
// holds it until it is removed or has handed it over.
func (in Input) holder() *crdv1.RoutingConfig {
	candidates := []*crdv1.RoutingConfig{in.Config}
	for i := range in.SameKey {
		if in.SameKey[i].UID != in.Config.UID {
			candidates = append(candidates, &in.SameKey[i])
		}
	}
	return routing.Holder(candidates...)
}

// successor returns the RoutingConfig that gets the key after this one is deleted; nil if there is
// none, or all are being deleted.
func (in Input) successor() *crdv1.RoutingConfig {
	var out *crdv1.RoutingConfig
	for i := range in.SameKey {
		c := &in.SameKey[i]
		if c.UID != in.Config.UID && c.DeletionTimestamp == nil && (out == nil || routing.Holder(c, out) == c) {
			out = c
		}
	}
	return out
}

// holds reports whether the key is this object's, and one that requests can carry.
func (in Input) holds() bool { return in.carried() && in.holder().UID == in.Config.UID }

// carried reports whether requests can carry the key. Nothing declares one that they cannot.
func (in Input) carried() bool { return routingkey.Problem(in.Config.RoutingKey()) == "" }

// formerKey returns the key that was declared before and is given up now, and the other objects that
// may declare it; empty if there is no such key. A key that requests cannot carry has no other objects.
func (in Input) formerKey() (string, []crdv1.RoutingConfig) {
	former := in.Config.Annotations[routing.AnnotationDeclaredKey]
	if former == "" || former == in.Config.RoutingKey() && in.carried() {
		return "", nil
	}
	if routingkey.Problem(former) != "" {
		return former, nil
	}
	itself := func(c crdv1.RoutingConfig) bool { return c.UID == in.Config.UID }
	return former, slices.DeleteFunc(slices.Clone(in.FormerKey), itself)
}

// Declared returns the fact that declares the routing key and members of the RoutingConfig.
func Declared(c *crdv1.RoutingConfig, d *factv1.RoutingDeclared) event.Fact {
	return event.Fact{
		Key:   event.RoutingKey(d.GetRoutingKey()),
		Cause: publish.CauseOf(crdv1.KindRoutingConfig, c),
		Data:  d,
	}
}

// Withdrawn returns the fact that the RoutingConfig does not declare the key.
func Withdrawn(c *crdv1.RoutingConfig, key string) event.Fact {
	return event.Fact{
		Key:   event.RoutingKey(key),
		Cause: publish.MakerOf(crdv1.KindRoutingConfig, c),
		Data:  &factv1.RoutingWithdrawn{RoutingKey: key},
	}
}
