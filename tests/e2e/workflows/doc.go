// Package workflows runs each sample of a resource plugin (workflows/samples) on a real
// cluster: its own store for the sandbox, the baseline's for all others, and nothing left in
// the cluster or in the store when the sandbox is deleted.
//
// `go test ./tests/e2e/workflows` prepares the cluster as `make demo-resource` does, and runs
// itself again inside the cluster's network.
package workflows
