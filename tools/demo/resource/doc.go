// Package resource runs the scenario of a sandbox with a separate store: podinfo with Redis, and
// the sample of a resource plugin that creates another Redis (workflows/samples/kubernetes).
//
//	Prepare    the cluster, with podinfo and Redis in namespace shop    prepare.go
//	Story      the scenario, inside the cluster's network               story.go
//	Command    the command line, with the cluster's kubeconfig          command.go
//	Snapshot   the objects in the cluster, to find leftovers            snapshot.go
//
// tests/e2e/workflows uses it too.
package resource
