// Package failure has the errors of operations of the REST API: they have the status and the text of their answer.
package failure

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/workflows/specfile"
)

// failure is an answer with the error object.
type failure struct {
	status int
	text   string
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// New returns a failure.
func New(status int, format string, args ...any) error {
	return &failure{status: status, text: fmt.Sprintf(format, args...)}
}

// As replaces the text of an error about the state of an object. Other errors stay.
func As(err error, state error, status int, text string) error {
	if errors.Is(err, state) {
		return &failure{status: status, text: text}
	}
	return err
}

// Missing returns a replacement of the text of errors about an object that does not exist.
func Missing(text string) func(error) error {
	return func(err error) error { return As(err, model.ErrNotFound, http.StatusNotFound, text) }
}

// Forbidden is Missing for a secret that is not known.
func Forbidden(text string) func(error) error {
	return func(err error) error { return As(err, model.ErrNotFound, http.StatusForbidden, text) }
}

// Taken is Missing for an object that exists.
func Taken(what string) func(error) error {
	return func(err error) error { return As(err, model.ErrExists, http.StatusConflict, what+" already exists") }
}

// Status returns the status and the text for an error. The text of an error of the store itself is
// in the log only.
func Status(err error) (int, string) {
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
