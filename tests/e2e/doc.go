// Package e2e holds what must be seen on a real cluster, with real pods, an
// application that nobody here wrote, and a chart installed by Helm: requests
// on the right side, faults of every program under load, storage lost, and a sample of a
// resource plugin.
//
// `go test ./tests/e2e` prepares the cluster as the demo does (tools/demo) and
// runs itself again inside the cluster's network. SWITCHYARD_CLUSTER=kind uses
// kind. The tests leave the cluster up, for a second run to find.
package e2e
