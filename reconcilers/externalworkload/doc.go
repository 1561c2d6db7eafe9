// Package externalworkload routes requests to a member of a sandbox that runs outside the cluster, usually
// on a user's workstation, behind a reverse tunnel that ends in a pod of the cluster.
//
//	gather    all inputs, from the cache                                gather.go
//	Decide    the desired Services and endpoints, or why not            decide.go         pure
//	  mapping   the ports that the spec diverts into the tunnel           decide_mapping.go
//	  report    reports of the operator's tunnel proxies                  decide_report.go
//	  tunnel    the end of the tunnel, and whether it works               decide_tunnel.go
//	  holder    the pods that are allowed at its end                      decide_holder.go
//	  Services  one beside each of the baseline's, without selector       decide_services.go
//	  endpoints from those Services into the tunnel                       decide_endpoints.go
//	  capture   second Services, while a TrafficCapture is attached       decide_capture.go
//	act       write the differences                                     reconciler.go
//	Conclude  the resulting fact for the log, and the status            decide_conclude.go  pure
//	Finish    publish the fact, delete surplus objects, write status    ../member/lifecycle.go
//
// # Which requests go to the workstation
//
// Requests to the container ports in spec.tunnel.baselineToLocals are diverted, and no others: a port that
// is not listed stays at the baseline on purpose, and the condition ServicesReady names it. A listed port
// is diverted from the moment at which the fact is on the log, whether or not a workstation is connected:
// until one is, or while its tunnel does not carry the port, requests with the key fail visibly. A listed
// port that no Service targets and no container declares is probably a mistake; it is reported, and the
// member is not ready, because requests would reach the baseline. While the baseline does not exist, or is
// a Rollout with an unknown pod template, everything stays as recorded in the status. If such a baseline
// is found at the first reconciliation, or the spec changes to one that does not exist, no fact is
// published and the objects that diverted requests of the previous baseline are deleted.
//
// During a rollout of the baseline, a Service can target one listed port of old pods and another of new
// ones: each listed port is diverted as long as pods have it.
//
// Without a baseline, or with a fake one, no request is diverted. There is one Service through which the
// workstation is reached (status.routingConfig.services, the entry without from), and no fact on the log.
//
// # The tunnel
//
// status.tunnel has the pod in which the tunnel ends, the port of that pod for each container port (info),
// and whether the workstation is connected (health). Tunnels at the operator's proxies are polled (package
// tunnels). Such a report takes effect at once and is written to the status when it changes, and well
// before the last check is too old, but not at every reconciliation. If the named pod is no proxy of the
// operator, another component writes both and the operator reads them. The status is also used until the
// operator's proxies have reported, as after a leader change.
//
// A tunnel is connected while the last check succeeded and is not older than Limits.Fresh. That changes by
// time alone, so the object is requeued for that time. The address is untrusted input of a client that may
// have no permission but to write this status: it must belong to the pod that the status names, and that
// pod must be in the namespace of the external workload or be a tunnel proxy of the operator
// (decide_holder.go); it is checked again when that pod changes or is deleted. An address that no pod can
// have (see addressProblem) is always refused, because requests could otherwise be sent to services of a
// node. The address of an API server is refused too, because requests to it would seem to come from a
// node. Without permission to read the addresses of API servers, every address is refused.
//
// Endpoints of a tunnel that is not connected stay, as not ready: connections to the Services are refused
// at once. A tunnel that was not connected for Limits.Grace is collected: its info is cleared, whichever
// component wrote it, and its endpoints are deleted, since the address may belong to another pod by then.
// The time counts from the last connection or, for a tunnel reported later, from the report. The Services
// stay. An external workload without an owner is deleted; a workstation that reconnects creates a new one.
//
// # Endpoints
//
// There is one EndpointSlice for each Service; its name contains the address family, which is immutable.
// v1 Endpoints are written only with Limits.WriteEndpoints, for clusters with clients that read nothing
// else, with the label that keeps Kubernetes from mirroring them into further slices. After that is
// switched off, the next leader deletes them when it starts (leftover.go); only then are they read past
// the cache.
package externalworkload
