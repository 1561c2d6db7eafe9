package gatewayadapter

import "switchyard.dev/reconcilers/meshes/precedence"

// Settings say whether requests are routed by HTTPRoutes and GRPCRoutes, and how.
type Settings struct {
	// Enabled: there is an adapter.
	Enabled bool
	// Istio: it implements the Gateway API, and is taken to order routes as istiod does. Else
	// they are ordered as the API says.
	Istio bool
	// PreservedLabels and PreservedAnnotations are globs of what a derived route has of its
	// original's metadata.
	PreservedLabels, PreservedAnnotations []string
}

// order is that of the implementation.
func (s Settings) order() precedence.Order {
	if s.Istio {
		return precedence.Istiod
	}
	return precedence.API
}
