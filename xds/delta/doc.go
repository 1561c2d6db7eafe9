// Package delta is the server's side of one delta xDS stream, as a value: what
// the client has subscribed to, has, and has refused. Requests go in (Receive);
// given the resources that there are, at most one response per type comes out
// (Next). It reads no clock and no network; xds/serve moves the messages.
//
// # Guarantees
//
//   - Only names that were asked for are sent, and only when the client does not have that
//     version. A client that reconnects lists its versions and is not sent those again.
//   - One response per type is in flight. Until the client has answered it, Next returns nil;
//     after that it returns the newest version, and versions in between are skipped.
//   - A version that the client refused is never sent to it again (the last 256 of a resource
//     are remembered). The version that it last accepted remains its version until the content
//     changes.
//   - Parts of routes (translate.PartType) are one unit to the client: it keeps every part that
//     it was sent, and its answer concerns the head. Parts are therefore sent whenever they
//     differ from those sent last, and only then.
//   - An answer to any response other than the one in flight changes nothing (its subscriptions
//     count).
//   - A name that has no resource is reported as removed, once.
//
// MaxNames bounds what a client can make a stream remember, and Size returns it. Wildcards are
// refused: a sidecar asks for its own workload by name.
package delta
