// Package coverage reports, for each baseline workload, how many of its pods have a ready and
// current DevMesh sidecar, which do not, why, and the remedy.
//
//	PodOf    what counts of a pod, from the pod
//	Of       the Report of one workload, from its pods
//	Reports  the Reports of all workloads that are concerned, from all pods
//
// A pod is in one State:
//
//	not_needed it has no sidecar, and no Service targets its workload, so it receives no
//	           requests, as with consumers of queues; or a mesh routes its
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
// The first that applies is the state. If the current settings of the injector, or the
// connected sidecars, are not known, no pod is outdated or behind; the Report then records that
// it is not known.
//
// A pod that has the proxy of another product beside its sidecar (Report.Beside) is in one of
// these states too: whether it works is not known, and its successor gets no sidecar.
//
// Images and resources are compared as written in the pod. If another webhook rewrites those of
// the sidecar's containers, all pods look outdated.
//
// A ready sidecar does not read all traffic: plain ports pass it untouched, excluded ports
// bypass it, and the sidecar of an edge drops keys (package inject). A caller that gives the
// ports to which requests are routed (Subject.Ports) gets those that are Unread, and whether
// all are; then no request of the workload is routed.
//
// Concerned are workloads that ask for sidecars, that have a fork, or that have a
// pod with a sidecar or with the annotation.
//
// It is pure. The condition SidecarsReady of ForkedWorkloads, the metric
// switchyard_devmesh_pods and the command switchyard coverage are computed from it.
package coverage
