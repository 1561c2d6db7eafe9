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

// gather reads all inputs of a sandbox from the cache, and past the cache if the cache shows that the
// sandbox has lost its key.
//
// +kubebuilder:rbac:groups=signadot.com,resources=resources;routingconfigs,verbs=get;list;watch
func gather(ctx context.Context, c client.Reader, s *crdv1.SignadotSandbox, config Config) (Input, error) {
	in := Input{Sandbox: s, Namespaces: config.Namespaces, OperatorNamespace: config.OperatorNamespace, KeyHeaders: config.KeyHeaders}
	var err error
	if in.Members, err = member.OwnedBy(ctx, c, s.UID); err != nil {
		return in, err
	}
	var resources crdv1.ResourceList
	if err := c.List(ctx, &resources, client.MatchingFields{apply.IndexOwner: string(s.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list Resources of SignadotSandbox %s: %w", s.Name, err)
	}
	for i := range resources.Items {
		in.Resources = append(in.Resources, &resources.Items[i])
	}
	if in.Configs, err = member.ConfigsOf(ctx, c, s.UID); err != nil {
		return in, err
	}
	in = in.ordered()
	in.Claims, in.KeyConfig, err = routingkey.Look(ctx, c, config.Live, s.Spec.ID, routingkey.OfSandbox(s))
	return in, err
}
