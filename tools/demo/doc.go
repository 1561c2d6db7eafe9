// Package demo creates a demo cluster and runs a scenario with one forked request.
//
// Prepare creates a cluster, packs and loads the images, and installs the chart and HotROD; each
// step reuses the result of an earlier run and then takes almost no time. Story sends the same
// request with and without a routing key, shows which workload responded and why, measures, and
// deletes the sandbox. It runs where the cluster's addresses are reachable (Cluster.Inside), with
// kubectl as its only other program, like a user would.
//
// The tests in tests/e2e use Prepare too.
package demo
