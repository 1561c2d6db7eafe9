// Package controlplane tests a control plane with real clusters: agents at real API servers, and the operator with
// pods that really run.
package controlplane
