// Package delta is the server's side of one delta xDS stream, as a value: what
// the client has subscribed to, has, and has refused. Requests go in (Receive);
// given the resources that there are, at most one response per type comes out
// (Next). It reads no clock and no network; xds/serve moves the messages.
//
// # What it promises
//
//   - Only names that were asked for are sent, and only when the client does not
//     have that version. A client that reconnects says what it has and is not
//     sent that again.
//   - One response per type is under way. Until the client has answered it, Next
//     gives nothing; after that it gives the newest, and what came and went
//     meanwhile is never sent.
//   - A version that the client refused is not sent to it again, ever (the last
//     256 of a resource are remembered). What it last accepted stays its version
//     until the content changes.
//   - Parts of routes (translate.PartType) are one thing to the client, which
//     keeps what it was sent whatever it answers, and whose answer is about the
//     head. So they are sent when they differ from what was sent last, and not
//     again as long as they do not.
//   - An answer to another response than the one under way changes nothing
//     (its subscriptions count).
//   - A name that has no resource is reported as removed, once.
//
// What a client makes a stream hold is bounded by MaxNames and told by Size.
// Wildcards are refused: a sidecar asks for its own workload by name.
package delta
