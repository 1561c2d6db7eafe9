// Package receipt determines, for a routing key, whether every proxy that can see it has acknowledged
// its rules, so that no key is reported ready before every proxy knows it.
//
//	Ask, Answer  the question and its answer       answer.go
//	Receipts     queries the route server          receipts.go, asking.go
//
// # How it works
//
// A reconciler with its facts on the routing log calls Look with the key, a digest of the content to be
// acknowledged, and the pods that have a proxy. Look returns the known answer and starts a query if
// needed; it waits for the first answer, but only some milliseconds, which usually suffices to save the
// reconciler from writing an intermediate status. A query is a call of the routing API's Wait, which
// returns as soon as all have acknowledged, over all route servers, or after some seconds with those
// that have not. Every answer requeues the RoutingConfig, through Config.Again.
//
// There is at most one query per object. A query with another digest or other pods replaces it. First
// queries do not wait behind repeated ones. The interval of queries to a route server that does not
// answer grows to five seconds.
//
// # Requirements
//
// The facts have to be on the log before Look is called: the query waits for all that the log has when
// the route server receives it. The caller stores the receipt (a RoutingConfig has its digest in an
// annotation): here it is lost with the process, and with Forget, which callers must call when they no
// longer need the answer.
package receipt
