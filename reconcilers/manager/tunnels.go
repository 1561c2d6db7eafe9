package manager

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/tunnelholders"
	"switchyard.dev/reconcilers/tunnelkeys"
)

// addTunnels adds the poller of tunnel proxies, if it is configured. again requeues external workloads
// with new results.
func (m *Main) addTunnels(ctx context.Context, c *kinds.Config, again publish.Again) error {
	if m.config.TunnelProxyToken == "" {
		return nil
	}
	if m.config.Trust == nil {
		return errors.New("tunnel proxies are polled over TLS only, and the manager has no certificates: enable TLS of the injected sidecars, or unset the token for tunnel proxies")
	}
	kube, err := kubernetes.NewForConfig(m.config.REST)
	if err != nil {
		return fmt.Errorf("reach the API server for keys of tunnels and Events: %w", err)
	}
	asked, err := tunnelholders.New(tunnelholders.Config{
		Client: m.manager.GetClient(), Namespace: m.config.Namespace, TokenFile: m.config.TunnelProxyToken,
		Roots: m.config.Trust, Again: again, Dial: m.config.DialProxy, Logger: m.config.Logger, Metrics: m.config.Metrics,
		Report: tunnelholders.Events{Client: m.manager.GetClient(), Create: kube.EventsV1().Events(metav1.NamespaceDefault), Logger: m.config.Logger}.Report,
	})
	if err != nil {
		return fmt.Errorf("make what asks tunnel proxies: %w", err)
	}
	if err := asked.Watch(ctx, m.manager.GetCache()); err != nil {
		return err
	}
	m.add("what asks tunnel proxies", onLeader(asked.Run))
	c.Tunnels = asked
	keys := tunnelkeys.Keeper{Secrets: kube.CoreV1().Secrets(m.config.Namespace), Logger: m.config.Logger}
	m.add("what makes the keys of tunnels", onLeader(keys.Run))
	return nil
}
