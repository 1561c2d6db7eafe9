// Package coverage says, for each baseline workload, how many of its pods have a
// ready and current DevMesh sidecar, which have not, why, and what to do.
//
//	PodOf    what counts of a pod, from the pod
//	Of       the Report of one workload, from its pods
//	Reports  the Reports of all workloads that are concerned, from all pods
//
// A pod is in one State:
//
//	not_needed it has no sidecar, and no Service leads to its workload: no request
//	           comes to it, as with consumers of queues; or a mesh routes its
//	           requests: VirtualServices of Istio, or routes of the Gateway API
//	missing    it has no sidecar and needs one: it is older than the wish for one, or was refused
//	           one, which its annotation sidecar.signadot.com/processed then explains
//	not_ready  its sidecar is not ready
//	outdated   its sidecar is ready, and was injected with other settings than a new
//	           pod would get (inject.Settings): an image, resources, iptables mode, or
//	           the label by which the manager finds it, which earlier versions gave none
//	behind     its sidecar is ready, but connected to no route server, or has not
//	           acknowledged the rules that it is to have
//	ok         none of this
//
// The first that holds is the one. Who does not know what is injected now,
// or which sidecars are connected, leaves them out, and gets no pod that is
// outdated or behind; the Report says that it is not known.
//
// A pod that has the proxy of another product beside its sidecar (Report.Beside) is in one of these
// states too: that it works is not known, and its successor gets no sidecar.
//
// Images and resources are compared as they stand in the pod. A cluster in which
// another webhook rewrites those of our containers makes all of them look outdated.
//
// A ready sidecar does not read all that comes: what is plain passes it untouched,
// what is excluded bypasses it, and that of an edge drops keys (package inject). Who says to which ports of the
// workload requests are led (Subject.Ports) is told which of them are Unread, and
// whether there is none that is read; then no request of it is routed.
//
// Concerned are workloads that ask for sidecars, that have a fork, or that have a
// pod with a sidecar or with the annotation.
//
// It is pure. The condition SidecarsReady of ForkedWorkloads, the metric
// switchyard_devmesh_pods and the command switchyard coverage are made of it.
package coverage
