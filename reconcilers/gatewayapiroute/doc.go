// Package gatewayapiroute writes the status of GatewayAPIRoutes: which HTTPRoutes and GRPCRoutes refer
// to the Service, and the routes that were derived from each for the routing key.
//
//	Conclude  the status, from the report of the adapter        decide.go      pure
//	New       what writes that status, package meshes           reconciler.go
//
// It creates no routes. The RoutingConfig creates a GatewayAPIRoute for each Service of a baseline, and
// the adapter (package meshes/gatewayadapter) follows the routing log and writes the derived routes,
// which the GatewayAPIRoute owns. A GatewayAPIRoute that a user creates has no effect, and its status
// reports that.
//
// While the Gateway API is off there is no adapter. The status of existing GatewayAPIRoutes reports
// that, unless another program writes it.
package gatewayapiroute
