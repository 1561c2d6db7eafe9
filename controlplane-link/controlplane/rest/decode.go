package rest

import (
	"io"

	"switchyard.dev/controlplane-link/controlplane/rest/decode"
	"switchyard.dev/workflows/specfile"
)

// tree is a JSON object.
type tree = decode.Tree

// text returns the body.
func (r *request) text() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r.Body, decode.MaxBody+1))
	if err != nil {
		return nil, specfile.Problems{{Text: "the body cannot be read"}}
	}
	return text, nil
}

// decode decodes the body, as decode.Object.
func (r *request) decode(into any) (tree, error) {
	text, err := r.text()
	if err != nil {
		return nil, err
	}
	return decode.Object(text, into)
}
