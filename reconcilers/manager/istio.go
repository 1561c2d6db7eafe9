package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"switchyard.dev/reconcilers/istioroute"
	"switchyard.dev/reconcilers/meshes/adapter"
	"switchyard.dev/reconcilers/publish"
)

// resolverFile is where the kubelet says how a pod finds Services.
const resolverFile = "/etc/resolv.conf"

// addIstio adds what keeps the routes of sandboxes in VirtualServices, and returns it; nil
// while Istio is off. again is where IstioRoutes are told what became of them.
func (m *Main) addIstio(ctx context.Context, again publish.Again) (istioroute.Reports, error) {
	if !m.config.Istio.Enabled {
		return nil, nil
	}
	var err error
	m.istio, err = adapter.New(adapter.Config{
		Settings: m.config.Istio, Log: m.config.Log, Client: m.manager.GetClient(), Kinds: m.optional,
		Elected: m.manager.Elected(), Again: again, Own: m.ownUser(), Logger: m.config.Logger,
		ClusterDomain: clusterDomain(resolverFile),
	})
	if err != nil {
		return nil, fmt.Errorf("make what writes VirtualServices: %w", err)
	}
	services, err := m.manager.GetCache().GetInformer(ctx, &corev1.Service{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch Services for VirtualServices: %w", err)
	}
	if _, err := services.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: m.istio.ServiceChanged, UpdateFunc: func(_, o any) { m.istio.ServiceChanged(o) }, DeleteFunc: m.istio.ServiceChanged,
	}); err != nil {
		return nil, fmt.Errorf("watch Services for VirtualServices: %w", err)
	}
	if err := m.manager.Add(m.istio); err != nil {
		return nil, fmt.Errorf("add what writes VirtualServices: %w", err)
	}
	return m.istio, nil
}
