// Package istioroute writes the status of IstioRoutes: which VirtualServices route to the Service, and
// whether they have the routes for the routing key.
//
//	Conclude  the status, from the report of the adapter        decide.go      pure
//	New       what writes that status, package meshes           reconciler.go
//
// It changes no VirtualService. The RoutingConfig creates an IstioRoute for each Service of a baseline,
// the adapter (package meshes/istioadapter) follows the routing log and writes the VirtualServices, and
// the IstioRoute reports the result to users. An IstioRoute that a user creates has no effect, and its
// status reports that.
//
// While istio.enabled is false there is no adapter. The status of existing IstioRoutes reports that,
// unless another program writes it. VirtualServices with routes stay in the status, also while they
// cannot be read, since these routes are not removed.
package istioroute
