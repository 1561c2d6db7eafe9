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
//   - A version that the client refused is not sent to it again. What it last
//     accepted stays its version until the content changes.
//   - An answer to another response than the one under way changes nothing
//     (its subscriptions count).
//   - A name that has no resource is reported as removed, once.
//
// Wildcards are refused: a sidecar asks for its own workload by name.
package delta
