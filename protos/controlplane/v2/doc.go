// Package controlplanev2 has the types and the client of the control plane's REST API, generated
// from openapi.yaml by tools/gen.
//
// A client sends its credential on every request, in one of three headers: Authorization with a
// bearer token, signadot-api-key, or signadot-cluster-token. Use WithRequestEditorFn to set it.
package controlplanev2
