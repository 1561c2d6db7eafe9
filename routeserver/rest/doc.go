// Package rest serves the published routes API over HTTP: GET
// /api/v1/workloads/routing-rules, the older path /api/v1/workloads/routes that
// examples still call, and /healthz and /readyz for probes.
//
// The JSON is that of the published models, which refuse fields they do not
// know and miss ones that were left out: lists are always lists, ports are
// always written, nothing is added inside a rule. What else there is to say
// stands in headers: Switchyard-Table, the position of the table as
// <epoch>/<sequence>, and ETag, the hash of its rules; a request with that ETag
// in If-None-Match gets 304 while nothing has changed.
//
// What is answered is written once for each version of the table and each filter, and
// shared by all who read it (package answers); compressed where the client asks for
// that. The ETag is the same then. Who takes longer than Config.AnswerWithin, or takes
// long while others need the room, is cut off.
//
// Failures are plain text with a status of 400 and up, never JSON: clients that
// do not look at the status would read a JSON object as "no rules".
//
// A query parameter that is not known is passed over, for clients of later editions
// send some, unless its name is a misspelling of a known one: that is 400, and the
// answer names the right one. To pass that over would give everybody's rules to a
// client that asked for a few (decision record 0024).
//
// Beside it stands our own API (routeserver/api), below /api/switchyard/v1/: the
// generated gateway turns requests into calls of a gRPC server inside this
// process, so both ways in give the same answers. Its failures are
// google.rpc.Status as JSON. Streams are one JSON object to a line, flushed one
// by one. /openapi.json describes it, and / says where it is.
package rest
