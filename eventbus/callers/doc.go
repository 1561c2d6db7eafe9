// Package callers knows who calls a listener, and what each may have of it.
//
//	Caller    who it is: a stranger by its address, a pod by its token, one of our own
//	Pool      how many calls of a kind each may have at once, and how many a second
//	Listener  whose connection is closed when there are too many
//	tokens    (below it) who a token's bearer is
//
// Listeners inside a cluster are reached by every pod of it, and most callers show
// nothing that says who they are. One pool for all of them lets the first who comes
// take everything. So a caller has its own share of each pool, and there are three
// pools of each kind, one for each Kind of caller: strangers can use up what is
// theirs, and the manager and the route servers are served all the same.
//
// An address of which many callers make use, as those behind a port-forward do, is no caller
// (Caller.Shared): it has no share of its own, and the oldest connections that have begun no
// handshake make room (Listener.AwaitHandshakes). Users are counted once they are known.
//
// Every room may import this package, for all have listeners; it imports nothing of ours.
//
// All of it is bounded: a caller that holds nothing is forgotten, and one that is
// remembered only for its rate is forgotten early when there are too many.
package callers
