package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode"

	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tunnels/workstation"
)

// KeyHeader is the header with the API key.
const KeyHeader = "Signadot-Api-Key"

// Key returns the API key in a file, or the other one if no file is named; empty: there is none.
func Key(file, other string) (string, error) {
	if file == "" {
		return other, nil
	}
	text, err := os.ReadFile(file)
	key := string(bytes.TrimSpace(text))
	switch {
	case err != nil:
		return "", exit.Usage.Errorf("the file of --api-key-file cannot be read: %w", err)
	case key == "" || strings.ContainsFunc(key, unicode.IsControl):
		return "", exit.Usage.Errorf("the file of --api-key-file, %s, does not have one line with the key", file)
	}
	return key, nil
}

// TokenOr returns the credentials of a Source; or, where the control plane issues none, those of the
// kubeconfig, which is passed to note.
func TokenOr(s *Source, kubeconfig func() (workstation.Token, error), note func(string)) workstation.Token {
	return (&either{source: s, kubeconfig: kubeconfig, note: note}).token
}

// either is the state of TokenOr.
type either struct {
	source     *Source
	kubeconfig func() (workstation.Token, error)
	note       func(string)

	mu  sync.Mutex
	own workstation.Token // nil: the control plane issues credentials, or was not asked yet
}

func (e *either) token(ctx context.Context, again bool) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.own == nil {
		token, err := e.source.Token(ctx, again)
		if !errors.Is(err, ErrNone) {
			return token, err
		}
		if e.own, err = e.kubeconfig(); err != nil {
			return "", workstation.Final(fmt.Errorf("%w, and %w", ErrNone, err))
		}
		e.note("Note: " + ErrNone.Error() + ": you are the user of the kubeconfig.")
	}
	return e.own(ctx, again)
}
