// Package resource tells the story of a sandbox with a store of its own: podinfo with Redis,
// and the sample of a resource plugin that makes another Redis (workflows/samples/kubernetes).
//
//	Prepare    the cluster, with podinfo and Redis in namespace shop    prepare.go
//	Story      what is told, inside the cluster's network               story.go
//	Command    the command line, with the cluster's own kubeconfig      command.go
//	Snapshot   what there is in the cluster, to see what is left        snapshot.go
//
// tests/e2e/workflows stands on it too.
package resource
