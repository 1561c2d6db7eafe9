// Package routes holds the route server against the published routes API as its
// clients know it: over real connections, with a client that follows the
// published one's rules (watched_test.go) and fails the test where that one would
// crash, hang or be misled.
//
// What published clients rely on, and where it is held:
//
//	R1  only ADD before SYNCED                      watched; under churn: watch_test.go
//	R2  every op but SYNCED has a route             watched
//	R3  every route has a baseline                  watched
//	R4  every route has a destination sandbox       watched
//	R5  SYNCED always, also of nothing              TestAWatchOfNothingIsSyncedAndStaysOpen
//	R6  names come back byte for byte               TestNamesComeBackAsTheyWereAsked
//	R7  the sandbox's name is the fork's own        golden files of reconcilers/sandbox, tests/pipeline
//	R8  REMOVE names the sandbox announced last     watched
//	R9  another sandbox is REMOVE, then ADD         watched; TestARuleThatMovesToAnotherSandboxIsKnownAtOnePlace
//	R10 REPLACE when only mappings change           watched; under churn
//	R11 no SYNCED from a cold table                 TestClientsOutliveARestartWithoutForgettingARule
//	R12 the stream stays open                       watched
//	R13 pings every ten seconds are welcome         TestPingsOnAnIdleWatchAreWelcome, TestAnIdleWatchLivesAndStillWatches
//	R14 no rule with an empty routing key           watched; TestNothingIsPublishedForAnEmptyRoutingKey
//	R15 a rule without a Service                    TestAWorkloadWithoutAServiceHasARule
//
// "watched" means that every test that watches fails when it is not so.
package routes
