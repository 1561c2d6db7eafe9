// Package baseline is what the controllers of sandboxed workloads know of the
// workload that a member stands for: a Deployment or an Argo Rollout, its pods with
// their sidecars, and the Services that lead to it.
//
//	Accept      whether a workload of a kind can be a baseline       accept.go    pure
//	Read, Pods  the live workload and its pods, from the cache       read.go, rollout.go
//	Selects     whether a Service leads to the baseline              services.go  pure
//	ListensOn   which port of the pod a port of a Service leads to   services.go  pure
//	Forms       the same while pods of a former template are there   services.go  pure
//	WithEndpoints  Services without a selector that lead to its pods  endpoints.go
//	Paths       whether any Service leads to a workload              endpoints.go  pure
//	Sidecars    whether requests to the baseline meet a sidecar      sidecars.go  pure
//	Surroundings.Reach  where requests to the Services arrive        reach.go
//	Watch       which members an event is about                      watch.go
//
// Members of all kinds may have a Rollout as their baseline: it is read and watched
// wherever the client knows of Rollouts, as that of the manager does (package
// optional). A Rollout that takes its pods from a Deployment has that one's template.
// The hash that Argo puts into selectors of Services is passed over: whichever form of
// the Rollout a Service leads to now, it leads to the baseline.
//
// # Sidecars
//
// SidecarsReady says whether every pod of the baseline has a ready sidecar, and
// whether that reads a port that the baseline's Services lead to: a key in what it
// does not read leads nowhere. Which ports those are is what the containers of the
// pods were told; why they are, what the pod template says. As long as one port is
// read the condition is true, and names those that are not.
//
// A baseline that no Service leads to needs no sidecar: the condition is true and says so
// (NoService), no proxy of it is waited for, and package coverage counts its pods without
// one as not_needed. Consumers of messages are such workloads. A Service that comes later
// has everything judged again. A Service without a selector whose EndpointSlices name pods
// of the baseline counts as one that selects them, and is routed as such. Services of other
// namespaces do not count, nor do clients that know the addresses of pods.
package baseline
