// Package rest serves the REST API of the control plane (protos/controlplane/v2) below /api/v2. A
// handler decodes a request, calls a store or a use case, and encodes its result.
//
//   - Success is 200 with JSON, and 201 for a devbox that is new. Failure is the published error object.
//   - Paths match exactly, with or without a slash at their end, and nothing is redirected.
//   - Published operations that are not served answer 501, and name what serves them instead.
//   - The credential is in a header. No cookie is read.
//
// Packages below it:
//
//	decode   bodies, paths and queries (pure)
//	encode   values of the API (pure)
//	failure  statuses and texts of errors
//	work     operations of runner groups and jobs
package rest
