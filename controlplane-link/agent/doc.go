// Package agent is the program that connects a cluster to its control plane: it keeps the session
// (controlplane-link/link), and answers connections to Services (controlplane-link/reach) and to the
// Kubernetes API (controlplane-link/kubeapi).
//
//	8088  /healthz: whether it is ready, and the state of the link as text; /nullz: alive
//	9090  /metrics
//
// Without a cluster token it is idle and ready. The token is read again when its file changes.
package agent
