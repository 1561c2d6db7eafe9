// Package baseline reads the workload that a member forks or replaces: a Deployment or an Argo Rollout,
// its pods with their sidecars, and the Services that select it.
//
//	Accept      whether a workload of a kind can be a baseline       accept.go    pure
//	Read, Pods  the live workload and its pods, from the cache       read.go, rollout.go
//	Selects     whether a Service selects the baseline               services.go  pure
//	ListensOn   the port of the pod that a Service port targets      services.go  pure
//	Forms       the same while pods of an older template exist       services.go  pure
//	WithEndpoints  Services without a selector with its pods as endpoints  endpoints.go
//	Paths       whether any Service forwards to a workload           endpoints.go  pure
//	Sidecars    whether requests to the baseline pass a sidecar      sidecars.go  pure
//	Surroundings.Reach  where requests to the Services arrive        reach.go
//	Watch       which members an event concerns                      watch.go
//
// Members of all kinds can have a Rollout as their baseline: it is read and watched if the client supports
// Rollouts, as the manager's does (package optional). A Rollout that takes its pods from a Deployment has
// the template of that Deployment. The hash that Argo adds to selectors of Services is ignored: whichever
// revision of the Rollout a Service selects now, it selects the baseline.
//
// # Sidecars
//
// The condition SidecarsReady is True if every pod of the baseline has a ready sidecar that reads a port
// targeted by the baseline's Services: a routing key in traffic that no sidecar reads has no effect. The
// ports come from the configuration of the injected containers; the reason for a missing port comes from
// the pod template. While at least one port is read, the condition is True and names the others.
//
// A baseline without a Service needs no sidecar: the condition is True with reason NoService, no proxy of
// it is waited for, and package coverage counts its pods without one as not_needed. Message consumers are
// such workloads. When a Service is added later, all of this is evaluated again. A Service without a
// selector counts, and is routed, like one that selects the pods if its EndpointSlices have pods of the
// baseline. Services in other namespaces do not count, and neither do clients that connect to pod IPs.
package baseline
