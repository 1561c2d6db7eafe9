// Package sweep shows that the controllers reach the same end however they are disturbed: on a
// real API server and etcd, with the real manager, with both the API server and the log behind
// package wire.
//
//	Scenario   three forks, two external workloads, a virtual one, a route group;
//	           updates; the end                                    scenario.go
//	World      an API server, the log, people, the rest of a cluster   world.go
//	State      all that there is, without what differs from run to run  package state
//	Golden     the States of a run in which nothing goes wrong         run.go
//	Recorded   another scenario: a fork that is recorded, with its pods and
//	           traffic-manager                                     captures.go, package recorded
//
//	Crashes    the process dies at write 1, 2, … N                     crash.go
//	Stale      every cache is older than the truth                     stale.go
//	Guards     with a guard disabled, the same checks find a fault     guards.go
//	Expiries, Outages   410 Gone, and an API server that is killed,
//	                    with and without routes in meshes              churn.go
//	Cycles     sandboxes come and go, and leave nothing                cycles.go
//
// The manager is package life; that units of Resources run once shows package workflows.
//
// The checks of a run: after each step of the scenario the State is that of the golden run; no
// object was created that the golden run did not create, nor more often; and no wanted object was
// deleted, and no wanted key withdrawn.
//
// Short forms run as tests (guards in package sensitivity), all of it with `make sweep`. Whatever is random follows
// from a seed that is printed.
package sweep
