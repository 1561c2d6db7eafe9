// Package published converts a routing table to the published routes API: which rules match a
// request's filters, and which ops notify a watcher of the changes between two tables. Both the
// gRPC and the REST server use it, so their results agree.
//
// A rule of the table that keeps requests at the baseline (of a VirtualWorkload) is not a rule of
// this API, where each rule means that the baseline leaves the requests to a sandbox: a consumer of
// messages at the baseline would drop messages that nothing else processes. See decision record
// 0015.
//
// It is pure. Two promises of the API are kept here:
//
//   - Updates are relative to the rules that match the filters of a watcher: a
//     rule that stops matching is removed, one that starts matching is added.
//   - A decision that moves to another sandbox is a REMOVE of the old rule and
//     then an ADD of the new one; clients that index by sandbox would otherwise
//     keep both. REPLACE is for new mappings only. Changes that the API cannot
//     express (readiness, another object with the same name) produce no op.
package published
