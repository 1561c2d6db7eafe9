// Package node provides a real mesh on a Kubernetes node: istiod, from Istio's charts, injects
// sidecars with stock Envoy into the pods of namespaces that request them, and the operator, from
// its chart, routes with it.
//
//	Prepare   creates the node and loads the images of both               prepare.go
//	Install   installs both, where the cluster's addresses are reachable  install.go
//
// Its test sends requests through a gateway and through pods, while sandboxes are created and
// deleted and an owner applies manifests. The cluster keeps running, for the next run.
package node
