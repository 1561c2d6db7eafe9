// Package rollouts tests the operator's controllers with the real Argo Rollouts controller,
// compiled from a pinned module (tools/argo), on a real API server with the ReplicaSet controller
// of Kubernetes. There are no nodes: the tests set the status of pods as a kubelet would.
//
// It also tests forks of both kinds against kubectl: a user can restart, scale, pause and annotate
// a fork, and the fork continues to follow its baseline.
package rollouts
