// Package pods has the pods of baselines at hand without holding every pod of the
// cluster in memory, of which most concern nobody here.
//
//	New, Start   hold the pods that carry the injector's label      pods.go
//	PodsOf       the pods of one workload                           live.go
//	Survey       all pods that lack the label, page by page         live.go
//	Client       a client that controllers find all this through    client.go
//
// Pods with a sidecar carry crdv1.LabelInjected: those are in a cache, and controllers
// are told of them. The rest are pods that got no sidecar, and those that an earlier
// version injected. They are listed at the API server when somebody asks about their
// workload, and what it answered is good as long as the workload has not changed, and
// not for longer than Fresh: a Deployment and a Rollout count their pods in their status,
// so one that comes, goes or gets ready changes them, and leads to a new question.
package pods
