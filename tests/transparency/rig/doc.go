// Package rig runs real applications in four ways: bare, in a separate pod; in a pod with the real
// sidecar, reached without a routing key; there again, with a key that is routed to a fork, which
// is another instance of the application on the node; and behind a stock Envoy, as a reference for
// conformance.
//
// Pods are network namespaces connected to the node by equal links (tests/podnet). The sidecar is
// its real program with a real Envoy, behind the redirection rules of a pod's init container, and
// gets its routes from a real xDS server.
package rig
