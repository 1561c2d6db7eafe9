package manager

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/tunnelholders"
	"switchyard.dev/reconcilers/tunnelkeys"
)

// addControllers adds the controllers of all kinds to the manager. again requeues objects that have not
// changed, by the name of the kind.
func addControllers(ctx context.Context, mgr ctrl.Manager, c kinds.Config, again map[string]publish.Again) error {
	controllers, err := kinds.Controllers(c)
	if err != nil {
		return err
	}
	if err := kinds.AddIndexes(ctx, mgr.GetFieldIndexer(), c.ExternalWorkloads.Also()...); err != nil {
		return err
	}
	for _, kind := range crdv1.Kinds() {
		if err := controllers[kind.Name].Setup(mgr, c.ControllerName(kind), again[kind.Name]); err != nil {
			return fmt.Errorf("set up the controller of %s: %w", kind.Name, err)
		}
	}
	return nil
}

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
