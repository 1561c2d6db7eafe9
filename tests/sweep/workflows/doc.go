// Package workflows verifies that a finished unit of a Resource is never run again, and that the
// final state is the same, whichever process crashes on the way: on a real API server and etcd,
// with the real manager, the IO context server as a process, and scripts that really run in pods
// with the programs io-init, io-run and io-sidecar and the pod's token. The actions of scripts are
// counted in a PostgreSQL server outside of the cluster.
//
//	World      an API server, the ledger, the programs                   world.go
//	           the IO context server, behind a gate                      server.go
//	           five units: a, then b and c at once, then d; e removes    scenario.go
//	           the simulated user, and the garbage collector             people.go
//	           the state, and the errors of a run                        state.go, judge.go
//	Run        a run with a crash at a write                             run.go, sweep.go
//	package kubelet   the node, with pods that can be killed
//	package ledger    the PostgreSQL server
//
// # Deaths
//
// The manager and the IO context server are killed at each of their writes: after it was done but
// before the response, or before it was done. In a third mode they survive, and only the response
// is lost. The manager has a fourth: terminated pods are deleted in between, and the next manager
// starts with stale caches.
//
// Pods are killed all at once, before each write of any program before which one lives: their
// processes are killed, they are deleted, or their node is lost.
//
// # Checks
//
// Where no pod was killed, each script has begun and ended once. Otherwise, a script has begun
// again only after its unit was paused for a user, and the user set the annotation signadot.com/retry.
// No unit is paused after its script has ended with 0 and its outputs are stored. The values and
// the Secret with the outputs are those of the undisturbed run, and at the end no object is left.
//
// A short form runs as a test, all of it with `make sweep-workflows`.
package workflows
