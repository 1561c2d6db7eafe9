// Package istioroute tells in each IstioRoute what became of it: which VirtualServices route
// to its Service, and whether they have the routes for its routing key.
//
//	Conclude  the status: what the adapter knows of the route   decide.go      pure
//	Reconcile writes that status                                reconciler.go
//
// It changes no VirtualService. The RoutingConfig makes an IstioRoute for each Service of a
// baseline, the adapter (package meshes/istioadapter) follows the routing log and writes the
// VirtualServices, and the IstioRoute is where people see what came of it. So one that
// somebody writes by hand changes nothing, whoever that is, and says so.
//
// While istio.enabled is false there is no adapter. An IstioRoute that is there says so then,
// unless another program writes its status. VirtualServices that had routes stay in the status,
// then and while they cannot be read: nobody takes these out.
package istioroute
