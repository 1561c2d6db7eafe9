// Package pipeline runs the whole path in one test process, for a fast loop: a real API server and
// etcd, the real controllers, JetStream in process, the route server, xDS, and a real Envoy that
// receives traffic by the real redirection.
//
// Only kubelet is missing. In its place World creates a network namespace for the baseline's pod,
// connected to the test's by a pair of veth devices; runs the baseline's application and the
// sidecar in it; responds for the fork at the cluster address of its Service; and sets the status
// that a kubelet and the Deployment controller would. The test process runs in a separate network
// namespace (package podnet), so it does not touch the machine's network.
package pipeline
