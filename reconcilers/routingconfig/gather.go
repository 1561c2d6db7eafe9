package routingconfig

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// gather reads all that counts for a RoutingConfig from the cache.
//
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads,verbs=get;list;watch
func gather(ctx context.Context, c client.Reader, config *crdv1.RoutingConfig, namespaces []string) (Input, error) {
	in := Input{Config: config, Forks: map[MemberName]*crdv1.ForkedWorkload{}, Namespaces: namespaces}
	var err error
	if in.SameKey, err = withKey(ctx, c, config.RoutingKey()); err != nil {
		return in, err
	}
	if former := config.Annotations[AnnotationDeclaredKey]; former != "" && former != config.RoutingKey() {
		if in.FormerKey, err = withKey(ctx, c, former); err != nil {
			return in, err
		}
	}
	for _, m := range config.Spec.SandboxedWorkloads {
		if m.Kind != crdv1.KindForkedWorkload || !in.mayRead(m.Namespace) {
			continue
		}
		w := &crdv1.ForkedWorkload{}
		err := c.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Name}, w)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return in, fmt.Errorf("read ForkedWorkload %s/%s: %w", m.Namespace, m.Name, err)
		}
		in.Forks[MemberName{m.Namespace, m.Name}] = w
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
