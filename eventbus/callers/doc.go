// Package callers identifies the callers of a listener, and bounds what each can use of it.
//
//	Caller    identity: a stranger by its address, a pod by its token, a program of the operator
//	Pool      bounds the concurrent calls of a kind, and their rate, for each caller
//	Listener  closes connections when there are too many
//	Refused   delays refusals of requests without a valid credential
//	tokens    (a package below) identity of a token's bearer
//
// Listeners inside a cluster can be reached by every pod of it, and most callers present no
// credentials. With one pool for all of them, the first callers could take everything. So a
// caller has its own share of each pool, and there are three pools of each kind, one for each
// Kind of caller: strangers can use up their own pool, and the manager and the route servers
// are still served.
//
// An address that is shared by many callers, such as the source of a port-forward, is not a
// caller (Caller.Shared): it has no share of its own, and the oldest connections that have
// begun no handshake make room (Listener.AwaitHandshakes). Users are counted once they are
// authenticated.
//
// Every component can import this package, because all have listeners; it imports no other
// package of the operator.
//
// Memory is bounded: a caller without calls in progress is forgotten, and one that is
// remembered only for its rate is forgotten early when there are too many.
package callers
