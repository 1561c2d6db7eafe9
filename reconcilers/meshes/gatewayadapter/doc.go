// Package gatewayadapter derives routes for sandboxes from the HTTPRoutes and GRPCRoutes of the Gateway
// API and writes them. Package gatewayapi computes them. Package meshes follows the log and notifies
// GatewayAPIRoutes of changed reports.
//
//	Adapter   syncs, and processes the keys with changes              adapter.go
//	cluster   the objects of the cluster, each parsed once            cluster.go
//	keyed     one routing key: inputs, derived and written objects  keyed.go
//	write     how a route is written                                  write.go
//	accepted  whether implementations accept a derived route          accepted.go  pure
//	Report    the report for a GatewayAPIRoute                        report.go
//	Settings  whether there is an adapter, and how it works           settings.go
//
// # One key at a time
//
// A sync reads everything, and derives only for keys with changes: in the table, in the derived
// objects, or in the owners' routes, their grants and the ports of the Services that they name. The
// objects of one key do not depend on another key.
//
// # Ownership
//
// A derived route is owned by its GatewayAPIRoutes, so that it is garbage-collected with them even
// while no manager runs. Until the GatewayAPIRoute exists nothing is derived for it. It is written with
// server-side apply. A new route is applied without force, so that a route of the same name that is not
// in the cache yet causes a conflict instead of being overwritten. An existing one is applied by its
// UID and with force, which reverts changes by others.
package gatewayadapter
