package gatewayadapter

import (
	"cmp"

	"switchyard.dev/reconcilers/meshes/precedence"
	"switchyard.dev/reconcilers/policies"
)

// Settings configure the routing by HTTPRoutes and GRPCRoutes.
type Settings struct {
	// Enabled: there is an adapter.
	Enabled bool
	// Istio: Istio implements the Gateway API and is assumed to order routes as istiod does. Otherwise
	// the order of the API applies.
	Istio bool
	// PreservedLabels and PreservedAnnotations are globs of the metadata that a derived route copies
	// from its original.
	PreservedLabels, PreservedAnnotations []string
	// Policies is the action if a policy applies to a route and not to one that is derived from it.
	// Default: policies.Refuse.
	Policies policies.Mode
	// PolicyKinds are the kinds of policies that are read. Default: the known ones.
	PolicyKinds []policies.Kind
}

// WithPolicies returns the settings with the given settings of policies.
func (s Settings) WithPolicies(p policies.Settings) Settings {
	s.Policies, s.PolicyKinds = p.Routes, policies.OfRoutes(policies.Kinds(p.Kinds))
	return s
}

// withDefaults returns the settings with every empty field that has a default set.
func (s Settings) withDefaults() Settings {
	s.Policies = cmp.Or(s.Policies, policies.Refuse)
	if s.PolicyKinds == nil {
		s.PolicyKinds = policies.OfRoutes(policies.Kinds(nil))
	}
	return s
}

// order is that of the implementation.
func (s Settings) order() precedence.Order {
	if s.Istio {
		return precedence.Istiod
	}
	return precedence.API
}
