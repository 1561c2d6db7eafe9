// Package gatewayapiroute tells in each GatewayAPIRoute what became of it: which HTTPRoutes and
// GRPCRoutes refer to its Service, and what was derived from each for its routing key.
//
//	Conclude  the status: what the adapter knows of the route   decide.go      pure
//	Reconcile writes that status                                reconciler.go
//
// It makes no route. The RoutingConfig makes a GatewayAPIRoute for each Service of a baseline,
// the adapter (package meshes/gatewayadapter) follows the routing log and writes what is
// derived, which the GatewayAPIRoute owns. One that somebody writes by hand changes nothing,
// whoever that is, and says so.
//
// While the Gateway API is off there is no adapter. A GatewayAPIRoute that is there says so then,
// unless another program writes its status.
package gatewayapiroute
