// Package identify finds the baseline workload that a sidecar belongs to, from the token of its
// pod alone.
//
//	token ─ TokenReview ─► pod ─ GET ─► its ReplicaSet ─ GET ─► its Deployment or Rollout
//
// The pod must be the one that the token was issued for, by UID, and each owner the controller
// of the object that it owns, by UID: another object with the same name does not count. Tokens
// must have the audience Audience.
//
// The result is cached for at most a minute, by the pod's UID, and a ReplicaSet's owner for all
// its pods. While the API server is unavailable, sidecars that were identified within the last
// minute can reconnect, and others receive Unavailable.
//
// Callers need RBAC: create tokenreviews, get pods, get replicasets.
package identify
