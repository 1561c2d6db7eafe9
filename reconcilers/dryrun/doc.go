// Package dryrun predicts the changes if an object were applied or deleted: the facts that the
// controllers would put on the routing log, the objects that they would write, and the problems that
// they would report. It writes nothing.
//
//	plan, err := dryrun.Apply(ctx, dryrun.Config{Reader: mine}, sandbox)
//
// The real controllers (package kinds) run until they settle, on a simulated cluster: it reads through
// the caller's Reader, with the caller's rights, and keeps writes in memory, on top of the objects that
// were read. So a plan has the same decisions, reasons and messages as a real run. The routing API's
// DryRun returns the decisions of the table that the statements of a plan would change. The client in
// memory (package inmemory) computes the results of patches and applies, so that conflicts over fields
// are found as well.
//
//	Ask            a user's question, by the operator's configuration  ask.go, package manifest
//	Apply, Delete  objects that are applied or deleted                dryrun.go
//	controllers    the simulated controllers                          controllers.go
//	world          the cluster as it is read, with writes on top      world.go, write.go
//	simulation     reconciles until nothing is left to do             simulation.go
//	statements     the facts, on a log in memory                      statements.go
//	asking         dry-run writes to the API server                   asking.go
//	steps          the pods of steps                                  steps.go
//	meshes         the objects that mesh adapters would write         meshes.go, package meshtrial
//	plan           the result                                         plan.go
//
// # Limits
//
// Nothing starts. A new fork is not ready, and its Services have no cluster IP yet, so their facts have
// ready false and an empty cluster_ip, and new objects have no UID. An existing fork is assumed to stay
// as ready as it is. No workstation connects, and no workflow of a resource runs: the plan of a sandbox
// with new resources ends before its forks start, and findings name the pending resources.
//
// Refusals by the API server beyond the checks of the controllers (admission webhooks, quotas, an
// invalid Deployment) are found if the Config has a Client: the objects, the Deployments, Rollouts and
// Services of their forks, and (with Steps) the pods of the steps of resources are sent with
// dryRun=All. A refused object is in the Refusals and has no further effects; if a fork is refused, the
// controllers report it. Plan.Unknown lists the checks that were not possible.
//
// The operator's own settings are those in the Config. If the caller does not know them, a plan refuses
// patches that the operator would accept (Powers), and accepts namespaces that it would not
// (Namespaces).
//
// # Meshes
//
// If a mesh is on, its adapter syncs with the table of the plan's own statements. Changes include the
// VirtualServices, derived DestinationRules and derived routes that it would write, for the routing
// keys of the plan. A workload without sidecars that the mesh routes is a remark (ReasonRoutedByMesh).
// Unknown lists kinds of the mesh that the user may not list. Not simulated: the routes of other
// sandboxes in the same VirtualService, and so its size, whether the implementation of the Gateway API
// accepts a derived route (it is assumed if it accepts the original), and a cluster domain other than
// cluster.local.
//
// # Requirements
//
// The caller provides a Reader with a scheme that includes Scheme, and which returns objects with their
// managedFields; it needs no index. It needs the right to get and list all kinds of signadot.com in
// Scheme in the whole cluster, and Deployments, Services, EndpointSlices, pods and PodDisruptionBudgets
// in the namespaces of the workloads, and Rollouts if one is forked; with a mesh also a RESTMapper, as
// a client.Client has. An error means that there is no plan: problems of the object itself are in the
// Findings.
package dryrun
