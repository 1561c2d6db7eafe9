// Package dryrun says what would change if an object were applied or deleted:
// the facts that the controllers would put on the routing log, the objects that
// they would write, and what they would find wrong. Nothing is written anywhere.
//
//	plan, err := dryrun.Apply(ctx, dryrun.Config{Reader: mine}, sandbox)
//
// The real controllers (package kinds) work, to the end, on a world of their own: it reads
// through the Reader of the caller, with the caller's rights, and what is written stays
// in memory, on top of what was read. So a plan is what they would do, for the
// same reasons, in the same words. The statements of a plan, given to the routing
// API's DryRun, give the decisions of the table that would change. What a patch or an
// apply makes of an object is worked out by controller-runtime's client in memory (package
// inmemory), so that conflicts over fields are seen as well.
//
//	Ask            a question of a user, by the operator's configuration  ask.go, package manifest
//	Apply, Delete  objects that are applied or deleted                dryrun.go
//	controllers    who is at work                                     controllers.go
//	world          the cluster as it is read, what is written on top   world.go, write.go
//	simulation     who looks at what again, until nobody has to        simulation.go
//	statements     the facts, on a log of their own                    statements.go
//	asking         what the API server would take                      asking.go
//	steps          the pods of steps                                   steps.go
//	meshes         what the adapters of meshes would write             meshes.go, package meshtrial
//	plan           what came of it                                     plan.go
//
// # What cannot be known
//
// Nothing starts: a fork that would be new is not ready, and its Services have no
// cluster IP yet, so their facts say so (ready false, cluster_ip empty), and
// objects that would be new have no UID. A fork that is there is taken to stay as
// ready as it is. No workstation connects, and no workflow of a resource runs: the
// plan of a sandbox whose resources are new ends before its forks start, and findings
// say what they wait for.
//
// What the API server would refuse beyond what the controllers check themselves
// (admission webhooks, quotas, a Deployment that is not valid) is seen where the Config
// has a Client: the objects, the Deployments, Rollouts and Services of their forks, and (with Steps)
// the pods of the steps of resources are sent with dryRun=All. An object that would be refused is in the Refusals, and nothing
// follows from it; about a fork that would be, the controllers report. A Plan says
// what could not be asked (Unknown).
//
// What the operator's own configuration allows is what the Config says: where a caller
// does not know that, a plan refuses patches that the operator would take (Powers), and
// takes namespaces that it would not (Namespaces).
//
// # Meshes
//
// Where a mesh is on, its adapter syncs with the table of the plan's own statements. Changes
// include the VirtualServices, derived DestinationRules and derived routes that it would write, for the
// routing keys of the plan. A workload without sidecars that the mesh routes is a remark (ReasonRoutedByMesh).
// Unknown lists kinds of the mesh that the user may not list. Not simulated: the routes of other
// sandboxes in the same VirtualService, and so its size, whether the implementation of the Gateway
// API accepts a derived route (it is assumed if it accepts the original), and a cluster domain
// other than cluster.local.
//
// # What callers owe
//
// A Reader whose scheme knows what Scheme knows, and that gives objects with their
// managedFields; it needs no index. It needs the right to get and list all kinds of
// signadot.com that Scheme knows of in the whole cluster, and Deployments, Services,
// EndpointSlices, pods and PodDisruptionBudgets in the namespaces of the workloads, and Rollouts
// where one is forked; with a mesh also a RESTMapper, as a client.Client has. An error means that there is no plan: faults of the
// object itself are in the Findings.
package dryrun
