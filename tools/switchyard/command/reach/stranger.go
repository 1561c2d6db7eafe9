package reach

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Stranger says that the API server of a cluster does not know who asks, and Login what to do.
const (
	Stranger = "the cluster does not know who you are: it does not take the token or the credentials of the kubeconfig"
	Login    = "log in to it again"
)

// StrangerError is an error of an API server that does not know who asks.
type StrangerError struct{ err error }

// Error implements error.
func (s *StrangerError) Error() string { return fmt.Sprintf("%s; %s (%v)", Stranger, Login, s.err) }

// Unwrap returns what the API server said.
func (s *StrangerError) Unwrap() error { return s.err }

// Again asks an API server, and once more where that does not know who asks: a plugin of the
// kubeconfig makes a new token when the last one was refused.
func Again[T any](ask func() (T, error)) (T, error) {
	answer, err := ask()
	if apierrors.IsUnauthorized(err) {
		return ask()
	}
	return answer, err
}

// Explained returns a StrangerError where err comes of an API server that does not know who asks and
// does not say so yet; other errors as they are.
func Explained(err error) error {
	var said *StrangerError
	if !apierrors.IsUnauthorized(err) || errors.As(err, &said) {
		return err
	}
	return &StrangerError{err}
}
