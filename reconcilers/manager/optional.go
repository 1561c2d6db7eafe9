package manager

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/meshes/adapter"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/optional"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/reconcilers/policies/reader"
)

// optionalKinds makes what finds kinds that a cluster may get, and lose, at any time.
//
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=rollouts.argoproj.io,verbs=get;list;watch
func (m *Main) optionalKinds() (*optional.Kinds, error) {
	all := []optional.Kind{{
		GroupVersionKind: baseline.RolloutKind(), Definition: baseline.RolloutDefinition,
		Indexes: kinds.RolloutIndexes(), Keep: transform(keepNoBooks, keepProgress),
	}}
	if m.config.Istio.Enabled { // The chart gives the right to read them then.
		all = append(all, optional.Kind{GroupVersionKind: adapter.VirtualServices, Definition: adapter.Definition})
	}
	if m.config.GatewayAPI.Enabled {
		for kind, definition := range gatewayadapter.Definitions {
			all = append(all, optional.Kind{GroupVersionKind: kind, Definition: definition})
		}
	}
	all = append(all, reader.Optional(m.policyKinds())...)
	return optional.New(optional.Config{
		REST: m.config.REST, Namespaces: inNamespaces(m.config.Namespaces), Logger: m.config.Logger, Kinds: all,
	})
}

// policyKinds returns the kinds of policies that are read: those for routes while there are derived
// routes. The chart gives the right to read them, for those of routes while the Gateway API is on.
func (m *Main) policyKinds() []policies.Kind {
	all := policies.Kinds(m.config.Policies.Kinds)
	if m.config.GatewayAPI.Enabled {
		return all
	}
	return policies.OfWorkloads(all)
}

// policySettings returns what to do about policies in this installation.
func (m *Main) policySettings() policies.Settings { return m.config.Policies.WithDefaults(true) }

// keepProgress leaves of the status of a Rollout how far a fork is.
func keepProgress(o metav1.Object) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	status, ok := u.Object["status"].(map[string]any)
	if !ok {
		return
	}
	kept := map[string]any{}
	for _, field := range []string{"replicas", "updatedReplicas", "availableReplicas", "observedGeneration", "phase", "message", "conditions"} {
		if value, ok := status[field]; ok {
			kept[field] = value
		}
	}
	u.Object["status"] = kept
}
