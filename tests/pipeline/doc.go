// Package pipeline runs the whole path in one test process, for a fast loop: a
// real API server and etcd, the real controllers, JetStream in process, the
// route server, xDS, and a real Envoy that real redirection sends traffic to.
//
// Kubelet is all that is missing. In its place World makes a network namespace
// for the baseline's pod, joined to the test's own by a pair of veth devices;
// runs the baseline's application and the sidecar in it; answers for the fork
// at the cluster address of its Service; and sets the status that a kubelet and
// the Deployment controller would. The test process itself runs in a network
// namespace of its own (package podnet), so nothing reaches the machine's network.
package pipeline
