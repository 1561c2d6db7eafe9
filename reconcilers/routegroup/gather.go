package routegroup

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routingkey"
)

// gather reads all inputs of a route group from the cache, and past the cache if the cache shows that the
// group has lost its key.
//
// +kubebuilder:rbac:groups=signadot.com,resources=routingconfigs;signadotsandboxes,verbs=get;list;watch
func gather(ctx context.Context, config Config, g *crdv1.SignadotRouteGroup) (Input, error) {
	c := config.Client
	in := Input{Group: g, Sandboxes: map[string]Sandbox{}, KeyHeaders: config.KeyHeaders}
	var err error
	if in.Configs, err = member.ConfigsOf(ctx, c, g.UID); err != nil {
		return in, err
	}
	for _, name := range in.names() {
		s := &crdv1.SignadotSandbox{}
		err := c.Get(ctx, client.ObjectKey{Name: name}, s)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return in, fmt.Errorf("read SignadotSandbox %s: %w", name, err)
		}
		members, err := member.OwnedBy(ctx, c, s.UID)
		if err != nil {
			return in, err
		}
		in.Sandboxes[name] = Sandbox{Object: s, Members: members}
	}
	in.Claims, in.KeyConfig, err = routingkey.Look(ctx, c, config.Live, g.Spec.RoutingKey, routingkey.OfGroup(g))
	return in, err
}
