// Package podnet makes what tests of the data plane need of a node and its pods:
// a network namespace for the test program itself, and others that are joined to
// it by a cable, as pods are. It needs root.
//
// A test program calls Isolate first in its TestMain, and then lives alone in a
// network namespace, which goes with it. Within, NewPod makes pods and
// ServeAddress gives the node addresses of its own, as cluster IPs.
package podnet
