package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/specfile"
)

// failure is an answer with the error object.
type failure struct {
	status int
	text   string
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// fail returns a failure.
func fail(status int, format string, args ...any) error {
	return &failure{status: status, text: fmt.Sprintf(format, args...)}
}

// as replaces the text of an error about the state of an object. Other errors stay.
func as(err error, state error, status int, text string) error {
	if errors.Is(err, state) {
		return &failure{status: status, text: text}
	}
	return err
}

// missing returns a replacement of the text of errors about an object that does not exist.
func missing(text string) func(error) error {
	return func(err error) error { return as(err, model.ErrNotFound, http.StatusNotFound, text) }
}

// forbidden is missing for a secret that is not known.
func forbidden(text string) func(error) error {
	return func(err error) error { return as(err, model.ErrNotFound, http.StatusForbidden, text) }
}

// taken is missing for an object that exists.
func taken(what string) func(error) error {
	return func(err error) error { return as(err, model.ErrExists, http.StatusConflict, what+" already exists") }
}

// one returns what a store has returned as the API has it; failed replaces the text of its error.
func one[M, V any](of func(M) (V, error), failed func(error) error) func(M, error) (any, error) {
	return func(m M, err error) (any, error) {
		if err != nil {
			return nil, failed(err)
		}
		return of(m)
	}
}

// each is one for a list.
func each[M, V any](of func(M) (V, error)) func([]M, error) ([]V, error) {
	return func(all []M, err error) ([]V, error) {
		if err != nil {
			return nil, err
		}
		return encode.Each(all, of)
	}
}

// statusOf returns the status and the text for an error. The text of an error of the store itself is
// in the log only.
func statusOf(err error) (int, string) {
	var f *failure
	var problems specfile.Problems
	switch {
	case errors.As(err, &f):
		return f.status, f.text
	case errors.As(err, &problems):
		return http.StatusBadRequest, problems.Error()
	case errors.Is(err, model.ErrText), errors.Is(err, model.ErrTooMany):
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, model.ErrKeyTaken):
		return http.StatusServiceUnavailable, "no routing key is free; send the request again"
	case errors.Is(err, model.ErrNotFound):
		return http.StatusNotFound, err.Error()
	case errors.Is(err, model.ErrExists), errors.Is(err, model.ErrInUse), errors.Is(err, model.ErrMoved), errors.Is(err, model.ErrDeleting), errors.Is(err, model.ErrHeld):
		return http.StatusConflict, err.Error()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "the request was not answered in time; send it again"
	}
	return http.StatusInternalServerError, "internal error"
}

// errorBody returns the published error object.
func errorBody(r *request, text string) any {
	return v2.ErrorResponse{Code: r.status, Error: text, RequestID: r.id}
}
