package rest

import (
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// one returns what a store has returned as the API has it; failed replaces the text of its error.
func one[M, V any](of func(M) (V, error), failed func(error) error) func(M, error) (any, error) {
	return func(m M, err error) (any, error) { return encode.One(of)(m, failed(err)) }
}

// errorBody returns the published error object.
func errorBody(r *request, text string) any {
	return v2.ErrorResponse{Code: r.status, Error: text, RequestID: r.id}
}
