// Package admin has the commands of the control plane's program for administrators, and its first
// administrator.
//
//	admin create                  prints a key of an administrator once, on a terminal or to a new file
//	organisation create NAME      organisation list
//	user list                     user delete ID: with its keys and sessions
//	adopt CLUSTER                 takes over the state of a cluster after the store was restored from a backup;
//	                              --dry-run lists its objects
//	backup PATH                   writes a copy of the store in SQLite to a new file
//	reseal                        encrypts all secrets with the first key of the file of keys
//
// The running server runs them: it has the store, which is open once, and the sessions with clusters. A
// command asks it at a socket in its container, to which only its user can connect:
//
//	kubectl exec -it deploy/controlplane -- /controlplane admin create
//
// # First administrator
//
// The chart creates Secret controlplane-admin at its installation, without a key. Secret.Key writes a random one into
// it, and First gives that to user admin if the organisation has no administrator that can log in; so neither an upgrade
// nor a new Secret is a new credential. Handover deletes the Secret once an administrator has logged in: with the key, or at the
// issuer. A key that was not used ends with it.
package admin
