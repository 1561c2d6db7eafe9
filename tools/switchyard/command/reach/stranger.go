package reach

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Stranger is the message for an API server that does not accept the user's credentials, and Login
// the remedy.
const (
	Stranger = "the cluster does not know who you are: it does not take the token or the credentials of the kubeconfig"
	Login    = "log in to it again"
)

// StrangerError is the error of an API server that does not accept the user's credentials.
type StrangerError struct{ err error }

// Error implements error.
func (s *StrangerError) Error() string { return fmt.Sprintf("%s; %s (%v)", Stranger, Login, s.err) }

// Unwrap returns the error of the API server.
func (s *StrangerError) Unwrap() error { return s.err }

// Again sends a request to an API server, and retries once if the credentials were not accepted: a
// plugin of the kubeconfig requests a new token after a rejection.
func Again[T any](ask func() (T, error)) (T, error) {
	answer, err := ask()
	if apierrors.IsUnauthorized(err) {
		return ask()
	}
	return answer, err
}

// Explained wraps an Unauthorized error of an API server into a StrangerError, once; it returns
// other errors unchanged.
func Explained(err error) error {
	var said *StrangerError
	if !apierrors.IsUnauthorized(err) || errors.As(err, &said) {
		return err
	}
	return &StrangerError{err}
}
