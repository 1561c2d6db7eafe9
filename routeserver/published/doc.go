// Package published says a routing table in the words of the published routes
// API: which rules match a request's filters, and which ops tell a watcher what
// changed between two tables. The gRPC and the REST server both speak through
// it, so they cannot disagree.
//
// A rule of the table that keeps requests at the baseline (of a VirtualWorkload) is not
// a rule of this API, where each one means that the baseline leaves them to somebody:
// a consumer of messages at the baseline would drop what nobody else processes. Decision
// record 0015 says more.
//
// It is pure. Two promises of the API are kept here:
//
//   - What a watcher is told is relative to the rules that match its filters: a
//     rule that stops matching is removed, one that starts matching is added.
//   - A decision that moves to another sandbox is a REMOVE of the old rule and
//     then an ADD of the new one; clients that index by sandbox would otherwise
//     keep both. REPLACE is for new mappings only. Changes that the API has no
//     word for (readiness, another object behind the same name) say nothing.
package published
