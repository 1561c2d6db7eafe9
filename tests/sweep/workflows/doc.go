// Package workflows shows that a unit of a Resource that has finished is never run again, and
// that the end is the same, whatever dies on the way there: on a real API server and etcd, with
// the real manager, the IO context server as a process, and scripts that run for real in pods
// with the programs io-init, io-run and io-sidecar and the pod's own token. The actions of
// scripts are counted in a PostgreSQL server outside of the cluster.
//
//	World      an API server, the ledger, the programs                   world.go
//	           the IO context server, behind a gate                      server.go
//	           five units: a, then b and c at once, then d; e removes    scenario.go
//	           the person that answers, and the garbage collector        people.go
//	           the state, and the errors of a run                        state.go, judge.go
//	Run        a run in which something dies at a write                  run.go, sweep.go
//	package kubelet   the node, with pods that can be killed
//	package ledger    the PostgreSQL server
//
// # Deaths
//
// The manager and the IO context server die at each write of their own: it was done and they did
// not get the answer, or it was not done. In a third way they live, and only the answer is lost.
// The manager dies in a fourth: pods that have ended are deleted in between, and the next manager
// begins with caches of before.
//
// Pods die all at once, before each write of any program before which one lives: their processes
// are killed, they are deleted, or their node is lost.
//
// # Checks
//
// Where no pod died, each script has begun and ended once. Where one did, a script has begun
// again only after its unit was held for a person, who has set the annotation signadot.com/retry.
// No unit is held after its script has ended with 0 and its outputs are kept. The values and the
// Secret with the outputs are those of the undisturbed run, and at the end nothing is left.
//
// A short form runs as a test, all of it with `make sweep-workflows`.
package workflows
