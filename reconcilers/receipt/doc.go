// Package receipt finds out, for a routing key, whether every proxy that can see it
// has acknowledged its rules, so that nobody is told to use a key that a proxy does
// not know yet.
//
//	Ask, Answer  what is asked and what is known   answer.go
//	Receipts     asks the route server, by itself  receipts.go, asking.go
//
// # How it works
//
// A reconciler whose facts are on the routing log calls Look with the key, a digest
// of what is to be acknowledged, and the pods that have a proxy. Look gives what is
// known and sees to it that somebody asks; it waits for the first answer, but for some
// milliseconds only: with that, most receipts are there before the reconciler has to
// write that they are not. To ask is a call of the routing API's Wait, which answers as
// soon as all have acknowledged, over all route servers, or after some seconds with
// those that have not. Every answer leads back to the reconciler, through Config.Again,
// and it looks once more.
//
// For each object one question is under way at most. Another digest takes the place
// of the former, and so do other pods. Questions that are asked for the first time
// do not wait behind those that are repeated, and a route server that does not
// answer is asked ever less often, every five seconds in the end.
//
// # What users owe
//
// The facts have to be on the log before Look is called: what is waited for is all
// that the log holds when the route server gets the question. A receipt is kept by
// who asked for it (a RoutingConfig has its digest in an annotation): here it is
// forgotten with the process, and with Forget, which is to be called when nobody
// wants the answer any more.
package receipt
