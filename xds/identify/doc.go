// Package identify tells which baseline workload a sidecar belongs to, from the
// token that its pod shows and from nothing that it says.
//
//	token ─ TokenReview ─► pod ─ GET ─► its ReplicaSet ─ GET ─► its Deployment or Rollout
//
// The pod must be the one that the token was made for, by UID, and each owner
// the controller of what it owns, by UID: a look-alike under the same name does
// not count. Tokens must be made for the audience Audience.
//
// The result is kept for a minute at most, by the pod's UID, and a ReplicaSet's
// owner for all its pods. So while the API server is away the sidecars that were
// known a minute ago may come back, and others are told to try again.
//
// Users owe RBAC: create tokenreviews, get pods, get replicasets.
package identify
