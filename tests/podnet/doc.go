// Package podnet creates the network of a node and its pods for tests of the data plane: a network
// namespace for the test program itself, and others that are connected to it by a veth pair, as
// pods are. It needs root.
//
// A test program calls Isolate first in its TestMain, and then runs alone in a network namespace,
// which is deleted with it. Within, NewPod creates pods and ServeAddress adds addresses to the
// node, as cluster IPs.
package podnet
