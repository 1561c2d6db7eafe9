// Package routing computes the declaration and the conditions of a RoutingConfig with its existing
// members. It is pure.
//
// The RoutingConfig's own controller uses it, and so does the owner of one, a sandbox or a route group:
// the conditions of the RoutingConfig may be older than its members, so an owner that copied them could
// be Ready for an earlier state.
//
//	Routing       a RoutingConfig with its members                  routing.go
//	Declaration   the fact for the routing log                      declaration.go
//	Absent, Note  baselines of members that do not exist            absent.go
//	Holder        which of several RoutingConfigs has a key         conflicts.go
//	Conflicts     members that replace the same baseline            conflicts.go
//	Acknowledged  whether proxies have the current rules            ready.go
//	Ready         whether requests are routed as specified          ready.go
//	Middlewares   the middlewares that a workload asks for          middlewares.go
//	OutsideMesh   forks that cannot call others through a mesh      conflicts.go
//	MeshRoutes    the routes that meshes are asked for              mesh.go
//
// # Current rules
//
// The current rules are identified by a digest (ToAcknowledge): of the declaration, of the status of
// members, and of the headers that carry keys. After every proxy that can see the key has acknowledged
// it, the digest is recorded on the RoutingConfig (AnnotationAcknowledged), and stays valid until the
// digest changes: with the declaration, with the members and their Services, and when a fork becomes
// able or unable to serve. Later pods and an unavailable route server do not invalidate it.
//
// # DevMesh and meshes
//
// A workload with DevMesh sidecars in its pods, or with a request for them, is routed by these. Any
// other is routed by the meshes that are on: then Ready requires for each of its Services that
// VirtualServices have the routes, or that routes for the key are derived from its HTTPRoutes and
// GRPCRoutes. A VirtualService takes precedence: nothing is derived from routes to a Service that one
// governs.
//
// # Ready is stable
//
// Sidecars reports the present condition: False while one pod of a baseline has a sidecar that is not
// ready. Ready ignores that once proxies are current: that pod is not ready either, and its sidecar
// gets all rules before it is. So scaling or restarting a baseline does not change Ready. A pod without
// a sidecar, or a port that no sidecar reads, does count: its requests are routed wrongly.
package routing
