// Package istioadapter writes the routes of sandboxes into the VirtualServices of Istio. Package istio
// computes them.
//
//	Start        syncs after each change                        adapter.go
//	sync         reads the table, the Services and the
//	             VirtualServices                                sync.go, wanted.go
//	state.next   computes the wanted VirtualServices and the
//	             report of each key                             state.go     pure
//	renderAgain  a VirtualService with the operator's marks     object.go    pure
//	reportOf     the report for an IstioRoute                   report.go    pure
//	work         writes VirtualServices that are out of date    work.go
//	write        writes one VirtualService                      write.go
//	bringRule    writes DestinationRules for the hosts of
//	             sandboxes, before the routes to them           rules.go
//	Next         when such a rule is written again              pacing          pure
//	Count        field managers that remove routes              rewrites
//	GivenUp      field managers after the operator's write      managedfields  pure
//	Of           the JSON patch of the webhook                  routepatch     pure
//	Review       the webhook                                    review.go
//	TakeOut      removes all marks where no Adapter runs        leftover.go
//	Settings     whether there is an adapter, added labels      settings.go
//
// # A reader of the log
//
// The Follower of package meshes triggers the syncs and notifies IstioRoutes of changed reports. It
// follows the routing log with a view, as route servers do, so it has the same data as sidecars, and
// catches up from the table after a restart. The wanted VirtualServices depend only on the table, the
// Services and the current VirtualServices, never on earlier writes.
//
// # Cost
//
// Events within 20 ms cause one sync. A sync reuses results of the previous one: a VirtualService is
// parsed once per version, and rendered again only when a Service that it names, a VirtualService that
// delegates to it, or one with the same hosts has changed. The reports of a key are computed again only
// for Services with changes.
//
// A sync writes nothing. It queues writes and reads the results of earlier ones, so that a write that
// hangs or fails delays no other: each VirtualService has its own pause, which doubles. Until the cache
// has a write, the API server's response to it is used.
//
// # Writers
//
// spec.http is one atomic list, and any writer of it becomes its owner for server-side apply. So the
// leader writes only an annotation and the webhook adds the routes (decision record 0041). The webhook
// does so in all other writes as well: if a client removes the operator's routes, its own write adds
// them again. Every replica syncs and serves the webhook; only the leader writes.
package istioadapter
