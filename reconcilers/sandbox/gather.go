package sandbox

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/routingkey"
)

// gather reads all that counts for a sandbox from the cache.
//
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads;routingconfigs,verbs=get;list;watch
func gather(ctx context.Context, c client.Reader, s *crdv1.SignadotSandbox, namespaces []string) (Input, error) {
	in := Input{Sandbox: s, Namespaces: namespaces}
	owned := client.MatchingFields{apply.IndexOwner: string(s.UID)}

	var forks crdv1.ForkedWorkloadList
	if err := c.List(ctx, &forks, owned, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list ForkedWorkloads of SignadotSandbox %s: %w", s.Name, err)
	}
	in.Forks = forks.Items

	var configs crdv1.RoutingConfigList
	if err := c.List(ctx, &configs, owned, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list RoutingConfigs of SignadotSandbox %s: %w", s.Name, err)
	}
	in.Configs = configs.Items
	if s.Spec.ID == "" {
		return in, nil
	}

	var err error
	if in.Claims, err = routingkey.Claims(ctx, c, s.Spec.ID); err != nil {
		return in, err
	}
	config := &crdv1.RoutingConfig{}
	err = c.Get(ctx, client.ObjectKey{Name: routingkey.ConfigName(s.Spec.ID)}, config)
	if apierrors.IsNotFound(err) {
		return in, nil
	}
	if err != nil {
		return in, fmt.Errorf("read RoutingConfig %s: %w", s.Spec.ID, err)
	}
	in.KeyConfig = config
	return in, nil
}
