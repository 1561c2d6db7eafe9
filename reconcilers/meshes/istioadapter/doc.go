// Package istioadapter keeps the routes of sandboxes in the VirtualServices of Istio. What they are
// package istio says; here is what reads and writes.
//
//	Start        looks whenever something has changed         adapter.go
//	look         reads the table, the Services and the
//	             VirtualServices                              look.go, wanted.go
//	state.next   what follows: how each is to be, and what
//	             there is to say of each key                  state.go     pure
//	renderAgain  a VirtualService with our marks on it        object.go    pure
//	reportOf     what an IstioRoute is told                   report.go    pure
//	work         writes those that are not as they should be  work.go
//	write        how one is written                           write.go
//	bringRule    writes DestinationRules for the hosts of
//	             sandboxes, before the routes to them         rules.go
//	Next         when such a rule is written again            pacing          pure
//	Count        field managers that remove routes            rewrites
//	GivenUp      who looks as if he had written it            managedfields  pure
//	Of           the JSON patch of the webhook                routepatch     pure
//	Review       what the webhook puts in                     review.go
//	TakeOut      all of ours, where no Adapter runs           leftover.go
//	Settings     whether there is an adapter, what it adds    settings.go
//
// # A reader of the log
//
// Package meshes has the Follower, which has it look, and tells IstioRoutes what came of it. It
// follows the routing log with a view, as route servers do, so it knows what sidecars know,
// and catches up from the table after a restart. What is to be written follows from the table,
// the Services and the VirtualServices as they are, and from nothing that was done before.
//
// # What it costs
//
// Events of 20 ms are one look. A look keeps of the one before what is the same: a VirtualService
// is read once for each version, and rendered again only when a Service that it names, one that
// delegates to it, or one that has its hosts has changed. What is said of a key is worked out again
// only for Services of which something has changed.
//
// A look writes nothing. It queues what is to be written, and takes in what became of it, so one
// write that hangs or fails holds up no other: each VirtualService has its own pause, which doubles.
// Until the cache has what was written, it counts as it was answered.
//
// # Who writes
//
// spec.http is one atomic list, and whoever writes it owns it for server-side apply. So the
// leader writes an annotation and the webhook puts the routes in (decision record 0041). It
// does so in each write of anybody else's too: who takes our routes out finds them put back
// within his own write. Every replica looks and serves the webhook; the leader alone writes.
package istioadapter
