// Package e2e contains the tests that need a real cluster, with real pods, a third-party
// application, and a chart installed by Helm: requests on the right side, faults of every program
// under load, storage lost, and a sample of a resource plugin.
//
// `go test ./tests/e2e` prepares the cluster as the demo does (tools/demo) and runs itself again
// inside the cluster's network. SWITCHYARD_CLUSTER=kind uses kind. The cluster keeps running, for
// the next run.
package e2e
