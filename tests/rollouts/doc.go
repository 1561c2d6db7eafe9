// Package rollouts holds our controllers against the real Argo Rollouts: its own
// controller, compiled from a pinned module (tools/argo), on a real API server with the
// ReplicaSet controller of Kubernetes. There are no nodes: the tests say of pods what a
// kubelet would.
//
// It also holds forks of both kinds against kubectl: a person may restart, scale, pause
// and annotate a fork, and it goes on to follow its baseline.
package rollouts
