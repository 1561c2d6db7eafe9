// Package externalworkload leads requests to a member of a sandbox that runs
// outside of the cluster, usually on somebody's workstation, behind a reverse
// tunnel whose other end is a pod in the cluster.
//
//	gather    everything that counts, from the cache                    gather.go
//	Decide    which Services and endpoints there should be, or why not  decide.go         pure
//	  mapping   which ports are asked to go through the tunnel            decide_mapping.go
//	  told      what the proxies of ours tell of the tunnel               decide_told.go
//	  tunnel    where the tunnel ends, and whether it works               decide_tunnel.go
//	  holder    which pods may be at its end                              decide_holder.go
//	  Services  one beside each of the baseline's, without selector       decide_services.go
//	  endpoints what leads from those Services into the tunnel            decide_endpoints.go
//	act       write what is not so already                              act.go
//	Conclude  what is true now: the fact for the log, and the status    decide_conclude.go  pure
//	Finish    state the fact, delete what it does not name, write both  ../member/lifecycle.go
//
// # Which requests go to the workstation
//
// Those to the container ports that spec.tunnel.baselineToLocals lists, and to no
// other: a port that is not listed stays at the baseline on purpose, and the
// condition ServicesReady names it. A listed port is diverted from the moment on at
// which the fact is on the log, whether a workstation is there or not: as long as none
// is, or its tunnel does not carry the port, requests with the key fail visibly.
// A listed port that neither a Service leads to nor a container declares was
// probably taken for another; that is said instead of called ready, because requests
// would reach the baseline. While the baseline is gone, or is a Rollout of which nobody
// knows what its pods are made from, everything stays as the status has it; at first sight
// of such a one, and when the spec names another that is not there, nothing is stated, and
// what led requests of the former one goes.
//
// While a baseline is rolled out, a Service may lead to a listed port of old pods and to
// another of new ones: each that is listed is diverted, as long as pods have it.
//
// Without a baseline, or with a fake one, no request is diverted. There is one
// Service through which the workstation is reached (status.routingConfig.services,
// the one without from), and nothing on the log.
//
// # The tunnel
//
// status.tunnel says in which pod the tunnel ends and which of its ports stands for which
// container port (info), and whether the workstation is connected (health). What proxies of
// ours hold is asked of them (package tunnels), counts at once, and is written here: when it
// changes, and well before the last check is too old to count, but not at every look. Where
// the pod that is named is no proxy of ours others write both, and we read them; while
// ours has told nothing yet, as after a new leader's start, what stands there counts.
//
// A tunnel counts as connected while the last check said so and
// is not older than Limits.Fresh; the turn comes by time alone, so the object is
// looked at again just then. The address is input like any other, of somebody who may have
// no right but to write this status: it has to be that of the pod that the status names,
// and that pod one of the external workload's own namespace or a tunnel proxy of the
// operator's (decide_holder.go); it is looked at again when that pod changes or goes.
// What cannot be a pod (see addressProblem) is refused in any case, or requests could be led to a node's own
// services; and so is that of an API server, or who may write a status could send
// requests there as if they came from a node. Without the right to read where those are,
// every address is refused.
//
// Endpoints of a tunnel that is not connected stay, as not ready: connections to the
// Services are refused at once. A tunnel that was not connected for Limits.Grace is
// collected: its info is cleared, whoever wrote it, and with it the
// endpoints go, since the address may belong to another pod by then. The time counts
// from the last connection, and of a tunnel that was told of after that, from then. The
// Services stay. An external workload that belongs to nobody goes altogether; a
// workstation that comes back makes a new one.
//
// # Endpoints
//
// EndpointSlices, one for each Service; its name has the address family, which
// cannot change. Endpoints objects of API v1 only with Limits.WriteEndpoints, for
// clusters in which something reads nothing else: with the label that keeps
// Kubernetes from mirroring them into further slices. When that is switched off
// again the next leader deletes those that were made, as it starts (leftover.go): only
// then are they read past the cache.
package externalworkload
