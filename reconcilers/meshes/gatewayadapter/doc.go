// Package gatewayadapter keeps the routes of sandboxes beside the HTTPRoutes and GRPCRoutes of
// the Gateway API. What they are package gatewayapi says, and package meshes follows the log
// and tells what came of it; here is what reads and writes.
//
//	Adapter   looks at everything, and brings those keys into line that changed  adapter.go
//	cluster   what the cluster has, each object parsed once                      cluster.go
//	keyed     one routing key: what it asks for, what is derived and written     keyed.go
//	write     how a route is written                                             write.go
//	accepted  whether implementations take what was written                     accepted.go  pure
//	Report    what a GatewayAPIRoute is told                                     report.go
//	Settings  whether there is an adapter, and how it works                      settings.go
//
// # One key at a time
//
// A look reads everything, and derives only for those keys for which something changed: what
// the table asks for, what we have derived, or the routes of the owners, their grants and the
// ports of the Services that they name. What is derived for one key depends on no other.
//
// # Whose routes
//
// A derived route is owned by the GatewayAPIRoutes that it is made for, so that it goes with
// them even while no manager runs. Until there is the GatewayAPIRoute nothing is derived for it.
// It is written with server-side apply: a new one without force, so that another's route of
// that name, which a cache may not know yet, ends in a conflict and not in a change; one that is
// ours by its UID and with force, which undoes what others have changed of it.
package gatewayadapter
