// Package rest serves the published routes API over HTTP: GET /api/v1/workloads/routing-rules, the
// older path /api/v1/workloads/routes that examples still call, and /healthz and /readyz for
// probes.
//
// The JSON is that of the published models, which reject unknown and missing fields: lists are
// always lists, ports are always written, nothing is added inside a rule. Additional data is in
// headers: Switchyard-Table is the position of the table as <epoch>/<sequence>, and ETag is the
// hash of its rules; a request with that ETag in If-None-Match gets 304 while nothing has changed.
//
// A response is encoded once for each version of the table and each filter, and shared by all
// readers (package answers); it is compressed if the client accepts that, with the same ETag. A
// client that takes longer than Config.AnswerWithin, or that is slow while memory is short, is
// disconnected.
//
// Errors are plain text with a status of 400 and up, never JSON: clients that ignore the status
// would read a JSON object as "no rules".
//
// Unknown query parameters are ignored, because clients of later versions send some, except
// misspellings of known ones: those are rejected with 400 and the correct name. Ignoring them would
// return all rules to a client that asked for a few (decision record 0024).
//
// The operator's own API (routeserver/api) is served below /api/switchyard/v1/: the generated
// gateway turns requests into calls of a gRPC server inside this process, so gRPC and HTTP return
// the same results. Its errors are google.rpc.Status as JSON. Streams are one JSON object per line,
// flushed one by one. /openapi.json describes it, and / lists its paths.
package rest
