// Package workflows runs each sample of a resource plugin (workflows/samples) on a real
// cluster (tests/e2e/sample), with a PostgreSQL, a NATS and a server of Helm charts.
//
// `go test ./tests/e2e/workflows` prepares the cluster as `make demo-resource` does, and runs
// itself again inside the cluster's network.
package workflows
