// Package demo brings up everything and tells the story of one forked request.
//
// Prepare makes a cluster, packs and loads the images, installs the chart and
// HotROD; each step finds what an earlier run left and then costs next to
// nothing. Story sends the same request with and without a routing key, shows
// what answered and why, measures, and takes the sandbox away again. It runs
// where the cluster's addresses can be reached (Cluster.Inside), with kubectl
// as its only other program, so that it does what a person would do.
//
// The tests in tests/e2e stand on Prepare too.
package demo
