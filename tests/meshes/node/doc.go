// Package node has a real mesh on a Kubernetes node: istiod, from Istio's charts, puts sidecars
// of stock Envoy into the pods of namespaces that ask for them, and the operator, from our chart,
// routes by it.
//
//	Prepare   makes the node and brings the images of both onto it        prepare.go
//	Install   installs both, where the cluster's addresses are reached    install.go
//
// Its test sends requests through a gateway and through pods, while sandboxes come and go and an
// owner applies his files. It leaves the cluster up, for a second run to find.
package node
