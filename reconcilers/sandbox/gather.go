package sandbox

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routingkey"
)

// gather reads all that counts for a sandbox from the cache, and past it where that says
// that its key is lost.
//
// +kubebuilder:rbac:groups=signadot.com,resources=resources;routingconfigs,verbs=get;list;watch
func gather(ctx context.Context, c client.Reader, s *crdv1.SignadotSandbox, config Config) (Input, error) {
	in := Input{Sandbox: s, Namespaces: config.Namespaces, OperatorNamespace: config.OperatorNamespace, KeyHeaders: config.KeyHeaders}
	owned := client.MatchingFields{apply.IndexOwner: string(s.UID)}

	var err error
	if in.Members, err = member.OwnedBy(ctx, c, s.UID); err != nil {
		return in, err
	}
	var resources crdv1.ResourceList
	if err := c.List(ctx, &resources, owned, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list Resources of SignadotSandbox %s: %w", s.Name, err)
	}
	for i := range resources.Items {
		in.Resources = append(in.Resources, &resources.Items[i])
	}
	var configs crdv1.RoutingConfigList
	if err := c.List(ctx, &configs, owned, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list RoutingConfigs of SignadotSandbox %s: %w", s.Name, err)
	}
	in.Configs = configs.Items
	in = in.ordered()
	in.Claims, in.KeyConfig, err = routingkey.Look(ctx, c, config.Live, s.Spec.ID, routingkey.OfSandbox(s))
	return in, err
}
