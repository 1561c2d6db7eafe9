// Package protos embeds the documents of the operator's own APIs, for programs to serve: the
// definitions are in the folders of this one, and the generated code and documents in gen.
package protos

import _ "embed" // for the document

// RoutingOpenAPI is the OpenAPI 2.0 document, in JSON, of the routing API
// (protos/routing/v1) as it is served over HTTP. Read only.
//
//go:embed gen/routing/v1/routing.swagger.json
var RoutingOpenAPI []byte
