// Package istio provides Istio for tests: istiod, compiled from a pinned Go module, the
// CustomResourceDefinitions of Istio and the Gateway API, and the charts and images for a
// Kubernetes node that runs it as in production.
//
//	Find      returns them, and compiles istiod if necessary      find.go
//	FindNode  returns Istio's charts, and the files of its images    node.go
//	Pack      packs the images, without a registry                images.go
//	pinned    go.mod and go.sum with all versions                 pinned/
//
// Compiling (tools/pinned) takes about ten minutes on two cores, once, and for a node five more.
package istio
