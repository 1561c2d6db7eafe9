// Package routing finds out what a RoutingConfig comes to with the members that there are:
// what it declares, and which conditions follow. It is pure.
//
// The RoutingConfig's own controller asks, and so does whoever owns one, a sandbox or a
// route group: its conditions may be older than its members, so an owner that repeated them
// would be Ready for what was there before.
//
//	Routing       a RoutingConfig with its members                  routing.go
//	Declaration   what it puts on the routing log                   declaration.go
//	Absent, Note  which baselines stay with members that do not exist   absent.go
//	Holder        which of several RoutingConfigs has a key         keyholder.go
//	Conflicts     which members stand for one baseline              conflicts.go
//	Acknowledged  whether proxies have what is there now            current.go
//	Ready         whether requests go where it says                 ready.go
//	Middlewares   what is asked for before a workload               middlewares.go
//	OutsideMesh   which forks cannot call others through a mesh   outside.go
//	MeshRoutes    what meshes are asked for, and what they say      mesh.go
//
// # Current
//
// What is there now is a digest (ToAcknowledge): of the declaration, of what the status of
// members says of them, and of the headers that carry keys. Once every proxy that can see
// the key has acknowledged that, the digest is noted on the RoutingConfig
// (AnnotationAcknowledged), and holds until there is another one: with the declaration, with
// the members and their Services, and when a fork becomes able to serve or unable. Neither
// pods that come later nor a route server that is away take it back.
//
// # DevMesh and meshes
//
// A workload whose pods have DevMesh sidecars, or ask for them, is routed by these. Any other
// is routed by the meshes that are on: then it counts for Ready that for each of its Services
// there are VirtualServices that have the routes, or HTTPRoutes and GRPCRoutes beside which
// those for the key stand. A VirtualService goes before: beside routes to a Service that one
// governs nothing is derived.
//
// # Ready lasts
//
// Sidecars says how it is now: False as long as one pod of a baseline has a sidecar that is
// not ready. Ready passes over that once proxies are current: the pod is not ready either,
// and its sidecar gets all rules before it is. So a baseline that is scaled up or restarted
// turns nothing. A pod that has no sidecar, or a port that none reads, is another matter:
// there requests do go astray.
package routing
