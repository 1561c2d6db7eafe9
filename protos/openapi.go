// Package protos embeds the descriptions of the HTTP APIs, for programs to serve. Their
// definitions are in the folders of this one, generated code in gen.
package protos

import _ "embed" // for the documents

// RoutingOpenAPI is the OpenAPI 2.0 document, in JSON, of the routing API
// (protos/routing/v1) as it is served over HTTP. Read only.
//
//go:embed gen/routing/v1/routing.swagger.json
var RoutingOpenAPI []byte

// RoutesOpenAPI is the OpenAPI 3.0 document, in JSON, of the published routes API
// (protos/routes) as it is served over HTTP. Read only.
//
//go:embed routes/routes.openapi.json
var RoutesOpenAPI []byte

// ControlPlaneOpenAPI is the OpenAPI 3.0 document, in JSON, of the control plane's REST API
// (protos/controlplane/v2). Read only.
//
//go:embed controlplane/v2/zz_generated.openapi.json
var ControlPlaneOpenAPI []byte
