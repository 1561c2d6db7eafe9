package manager

import (
	"slices"

	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/optional"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/reconcilers/policyreader"
)

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
