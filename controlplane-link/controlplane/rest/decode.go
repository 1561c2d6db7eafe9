package rest

import (
	"fmt"
	"io"
	"slices"

	"switchyard.dev/controlplane-link/controlplane/rest/decode"
	"switchyard.dev/workflows/specfile"
)

// Maximum sizes of bodies, in bytes: of one, of one with a specification, and of all that are decoded at
// the same time. A decoded body can take 50 times its size.
const (
	maxBody   = 64 << 10
	maxSpec   = 1 << 20
	maxBodies = 8 << 20
)

// withSpec are the operations with a specification in their body.
var withSpec = []string{"applySandbox", "applyRouteGroup", "applyResourcePlugin"}

// maxBody is the maximum size of the body of an operation.
func (o *operation) maxBody() int {
	if slices.Contains(withSpec, o.name) {
		return maxSpec
	}
	return maxBody
}

// tree is a JSON object.
type tree = decode.Tree

// text returns the body. It waits until it can be decoded beside those of other requests, until the end of
// the request.
func (r *request) text() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r.Body, int64(r.op.maxBody())+1))
	if err != nil {
		return nil, specfile.Problems{{Text: "the body cannot be read"}}
	}
	if len(text) > r.op.maxBody() {
		return nil, specfile.Problems{{Text: fmt.Sprintf("the body has more than %d bytes", r.op.maxBody())}}
	}
	if err := r.bodies.Acquire(r.Context(), int64(len(text))); err != nil {
		return nil, err
	}
	r.decoding += int64(len(text))
	return text, nil
}

// with serves an operation with its body, as decode.Object decodes it.
func with[T any](serve func(*Handler, *request, T, tree) (any, error)) func(*Handler, *request) (any, error) {
	return func(h *Handler, r *request) (any, error) {
		var in T
		body, err := r.decode(&in)
		if err != nil {
			return nil, err
		}
		return serve(h, r, in, body)
	}
}

// decode decodes the body, as decode.Object.
func (r *request) decode(into any) (tree, error) {
	text, err := r.text()
	if err != nil {
		return nil, err
	}
	body, err := decode.Object(text, into)
	if err == nil && !slices.Contains(withSpec, r.op.name) {
		err = decode.Short(body)
	}
	return body, err
}
