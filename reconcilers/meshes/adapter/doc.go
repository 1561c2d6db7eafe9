// Package adapter keeps the routes of sandboxes in the VirtualServices of Istio. What they are
// package istio says; here is what reads and writes.
//
//	Start       looks whenever something has changed          adapter.go, events.go
//	look        the table, the Services, the VirtualServices,
//	            what each is to be, and what there is to say  look.go, wanted.go
//	bring       all of them, and what came of each so far        bring.go
//	render      a VirtualService with our marks on it         object.go    pure
//	write       how it is written                             write.go
//	givenUp     who looks as if he had written it             owners.go   pure
//	Review      what the webhook puts in                      review.go
//	Report      what an IstioRoute is told                    report.go
//	Settings    whether there is an adapter, what it adds     settings.go
//
// # A reader of the log
//
// It follows the routing log with a view, as route servers do, so it knows what sidecars know,
// and catches up from the table after a restart. Each look is at everything: what is to be
// written follows from the table, the Services and the VirtualServices as they are, and from
// nothing that was done before.
//
// # Who writes
//
// spec.http is one atomic list, and whoever writes it owns it for server-side apply. So the
// leader writes an annotation and the webhook puts the routes in (decision record 0041). It
// does so in each write of anybody else's too: who takes our routes out finds them put back
// within his own write. Every replica looks and serves the webhook; the leader alone writes.
package adapter
