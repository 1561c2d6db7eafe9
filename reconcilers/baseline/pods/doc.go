// Package pods provides the pods of baselines without keeping every pod of the cluster in memory, most of
// which are irrelevant to the operator.
//
//	New, Start   cache the pods with the injector's label          pods.go
//	PodsOf       the pods of one workload                          live.go
//	Survey       all pods that lack the label, page by page        live.go
//	Client       a client for controllers with these methods       client.go
//
// Pods with a sidecar have the label crdv1.LabelInjected: they are cached, and controllers get their
// events. The others are pods without a sidecar, and pods injected by an earlier version. They are listed
// at the API server when their workload is queried. The result is valid until the workload changes, and
// for at most Fresh: Deployments and Rollouts count their pods in their status, so a pod that is created,
// is deleted or becomes ready changes it, which triggers another query. After a start the workloads of all
// members are queried together, with one request for each namespace.
package pods
