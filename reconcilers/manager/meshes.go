package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/program"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/gatewayapiroute"
	"switchyard.dev/reconcilers/istioroute"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/optional"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/reconcilers/policyreader"
	"switchyard.dev/reconcilers/publish"
)

// addMeshes adds the enabled mesh adapters. again requeues their MeshRoutes after a sync, by kind.
func (m *Main) addMeshes(ctx context.Context, c *kinds.Config, again map[string]publish.Again) (err error) {
	istio, gatewayAPI := make(publish.Again), make(publish.Again)
	if c.Istio, err = m.addIstio(ctx, istio); err != nil {
		return err
	}
	if c.GatewayAPI, err = m.addGatewayAPI(ctx, gatewayAPI); err != nil {
		return err
	}
	if c.Istio != nil {
		again[crdv1.KindIstioRoute] = istio
	}
	if c.GatewayAPI != nil {
		again[crdv1.KindGatewayAPIRoute] = gatewayAPI
	}
	return nil
}

// addIstio adds the adapter that keeps the routes of sandboxes in VirtualServices, and returns it; nil if
// Istio is disabled. again requeues IstioRoutes after a sync.
func (m *Main) addIstio(ctx context.Context, again publish.Again) (istioroute.Reports, error) {
	if !m.config.Istio.Enabled {
		return nil, nil
	}
	var err error
	m.istio, err = istioadapter.New(istioadapter.Config{
		Settings: m.config.Istio, Log: m.config.Log, Client: m.manager.GetClient(), Kinds: m.optional,
		Elected: m.manager.Elected(), Again: again, Own: m.ownUser(), Logger: m.config.Logger,
		ClusterDomain: program.ClusterDomain(program.ResolverFile),
		Policies:      policies.OfVirtualServices(), RefusePolicies: m.policySettings().Routes == policies.Refuse,
	})
	if err != nil {
		return nil, fmt.Errorf("make what writes VirtualServices: %w", err)
	}
	if err := m.notifyOn(ctx, m.istio.ServiceChanged, &corev1.Service{}); err != nil {
		return nil, fmt.Errorf("for VirtualServices: %w", err)
	}
	m.add("what writes VirtualServices", m.istio)
	return m.istio, nil
}

// addGatewayAPI adds the adapter that keeps the routes of sandboxes beside HTTPRoutes and GRPCRoutes, and
// returns it; nil if the Gateway API is disabled. again requeues GatewayAPIRoutes after a sync.
//
// The chart grants read and write access to those routes, and to ReferenceGrants, while
// istio.gatewayAPI.enabled or linkerd.gatewayAPI.enabled is true.
func (m *Main) addGatewayAPI(ctx context.Context, again publish.Again) (gatewayapiroute.Reports, error) {
	if !m.config.GatewayAPI.Enabled {
		return nil, nil
	}
	adapter, err := gatewayadapter.New(gatewayadapter.Config{
		Config: meshes.Config{
			Log: m.config.Log, Client: m.manager.GetClient(), Kinds: m.optional, Elected: m.manager.Elected(), Again: again, Logger: m.config.Logger,
		},
		Settings: m.config.GatewayAPI.WithPolicies(m.policySettings()), VirtualServices: m.config.Istio.Enabled, Namespaces: m.config.Namespaces,
	})
	if err != nil {
		return nil, fmt.Errorf("make what derives routes of the Gateway API: %w", err)
	}
	counts := []client.Object{&corev1.Service{}, &crdv1.GatewayAPIRoute{}}
	if m.config.Istio.Enabled {
		counts = append(counts, &crdv1.IstioRoute{})
	}
	if err := m.notifyOn(ctx, adapter.Changed, counts...); err != nil {
		return nil, fmt.Errorf("for the Gateway API: %w", err)
	}
	m.add("what derives routes of the Gateway API", adapter)
	return adapter, nil
}

// notifyOn calls changed for each object of these kinds that is added, updated or deleted.
func (m *Main) notifyOn(ctx context.Context, changed func(o any), kinds ...client.Object) error {
	for _, kind := range kinds {
		informer, err := m.manager.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: changed, UpdateFunc: func(_, o any) { changed(o) }, DeleteFunc: changed,
			})
		}
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}

// Reasons of Events about the size of the routing log.
const (
	reasonCrowded = "RoutingLogCrowded"
	reasonRoomy   = "RoutingLogHasRoom"
)

// countingPatience is the timeout for counting the objects in the cache.
const countingPatience = 5 * time.Second

// tellCrowded records an Event on the ConfigMap with the state of the routing log when the log uses half
// of its maximum size (crowded), or no longer does.
func (m *Main) tellCrowded(crowded bool, kept eventbus.Kept) {
	ctx, cancel := context.WithTimeout(context.Background(), countingPatience)
	defer cancel()
	about := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: m.config.Namespace, Name: publish.EpochConfigMap}
	if err := m.manager.GetAPIReader().Get(ctx, key, about); err != nil {
		m.config.Logger.Warn("cannot record an Event about the size of the routing log", "error", err)
		return
	}
	kind, reason, note := corev1.EventTypeNormal, reasonRoomy, "The routing log has room again."
	if crowded {
		kind, reason = corev1.EventTypeWarning, reasonCrowded
		note = fmt.Sprintf("The routing log takes %d of %d MiB, so history is forgotten sooner than it is to be. "+
			"Set eventBus.history.size to more (and eventBus.persistence.size to 1.6 times that), or keep less: eventBus.history.events, eventBus.history.age.",
			kept.Bytes>>20, kept.MaxBytes>>20)
	}
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: about.Namespace, Name: about.Name, UID: about.UID}
	m.manager.GetEventRecorder(crdv1.FieldManager).Eventf(ref, nil, kind, reason, "Write", "%s", note)
}

// optionalKinds returns the tracker of kinds that can be installed or removed at any time.
//
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=rollouts.argoproj.io,verbs=get;list;watch
func (m *Main) optionalKinds() (*optional.Kinds, error) {
	all := []optional.Kind{{
		GroupVersionKind: baseline.RolloutKind(), Definition: baseline.RolloutDefinition,
		Indexes: kinds.RolloutIndexes(), Keep: transform(keepNoBooks, baseline.KeepProgress),
	}}
	if m.config.Istio.Enabled { // The chart gives the right to read them then.
		all = append(all, optional.Kind{GroupVersionKind: istioadapter.VirtualServices, Definition: istioadapter.Definition},
			optional.Kind{GroupVersionKind: istioadapter.DestinationRules, Definition: istioadapter.RulesDefinition, Keep: transform(keepNoBooks)})
	}
	if m.config.GatewayAPI.Enabled {
		for kind, definition := range gatewayadapter.Definitions {
			all = append(all, optional.Kind{GroupVersionKind: kind, Definition: definition})
		}
	}
	// The chart grants read access to policies of routes while the Gateway API is enabled.
	for _, kind := range policyreader.Optional(policies.Present(m.config.Policies.Kinds, m.config.GatewayAPI.Enabled)) {
		// Where DestinationRules are copied, they are cached as a whole.
		if !slices.ContainsFunc(all, func(have optional.Kind) bool { return have.GroupKind() == kind.GroupKind() }) {
			all = append(all, kind)
		}
	}
	return optional.New(optional.Config{
		REST: m.config.REST, Namespaces: inNamespaces(m.config.Namespaces), Logger: m.config.Logger, Kinds: all,
	})
}

// policyReader returns the reader of the policies of workloads.
func (m *Main) policyReader() policyreader.Reader {
	return policyreader.Reader{Client: m.manager.GetClient(), Kinds: m.optional, Of: policies.OfWorkloads(policies.Kinds(m.config.Policies.Kinds)), Namespaces: m.config.Namespaces}
}

// policySettings returns the settings for policies in this installation.
func (m *Main) policySettings() policies.Settings {
	return m.config.Policies.WithDefaults(m.defaults.Current())
}
