// Package rig runs real applications in four ways: bare, in a pod of their own; in a pod with the
// real sidecar, reached without a routing key; there again, with a key that is routed to a fork,
// which is the same application once more on the node; and behind a stock Envoy, as a reference
// for conformance.
//
// Pods are network namespaces joined to the node by equal cables (tests/podnet). The
// sidecar is its real program with a real Envoy, redirected to by the rules that a
// pod's init container makes, and gets its routes from a real xDS server.
package rig
