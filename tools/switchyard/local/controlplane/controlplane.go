// Package controlplane gets credentials for a cluster, and the operator's authority there, from a
// control plane, for users without a kubeconfig (tunnels/credential/signed).
package controlplane

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tunnels/credential/signed"
	"switchyard.dev/tunnels/workstation"
)

// ErrNone is the error of a control plane that issues no credentials.
var ErrNone = errors.New("the control plane issues no credentials for tunnels")

// Source gets credentials. It is safe for concurrent use.
type Source struct {
	at     *url.URL
	header http.Header
	client *http.Client

	mu    sync.Mutex
	last  signed.Grant
	asked time.Time // when last was issued
	until time.Time // when to get another
}

// New returns a Source at the URL of a control plane's proxy. header is sent with each request:
// the API key and the name of the cluster. config has the authorities of its certificate; nil: the system's.
func New(at *url.URL, header http.Header, config *tls.Config) *Source {
	to := *at
	to.Path, to.RawQuery, to.Fragment = signed.GrantPath, "", ""
	return &Source{at: &to, header: header, client: &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: within},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the key is for this server
	}}
}

const (
	// within bounds a request.
	within = 15 * time.Second
	// recent is for how long an authority counts as read just now.
	recent = 5 * time.Second
)

// Token returns a credential, as workstation.Token. A new one is requested once half of the lifetime of
// the last one is over.
func (s *Source) Token(ctx context.Context, again bool) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if again || s.last.Credential == "" || time.Now().After(s.until) {
		if err := s.ask(ctx); err != nil {
			return "", err
		}
	}
	return s.last.Credential, nil
}

// Authority returns the certificates of the operator's authority, as PEM.
func (s *Source) Authority(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.Authority == "" || time.Since(s.asked) > recent {
		if err := s.ask(ctx); err != nil {
			return nil, err
		}
	}
	return []byte(s.last.Authority), nil
}

// Trust sets roots to the operator's authority.
func (s *Source) Trust(ctx context.Context, roots *trust.Roots) error {
	bundle, err := s.Authority(ctx)
	if err != nil {
		return err
	}
	return workstation.Final(roots.Set(bundle))
}

// ask requests a Grant. s.mu is locked.
func (s *Source) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.at.String(), http.NoBody)
	if err != nil {
		return workstation.Final(err)
	}
	for name, values := range s.header {
		r.Header[name] = values
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return fmt.Errorf("the control plane at %s is not reached: %w", s.at.Host, errors.Unwrap(err)) // without the URL, which may have a password
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 2*trust.MaxBundle))
	if err != nil {
		return fmt.Errorf("the control plane at %s did not answer: %w", s.at.Host, err)
	}
	if answer.StatusCode != http.StatusOK {
		return s.refused(answer, text)
	}
	var got signed.Grant
	if err := json.Unmarshal(text, &got); err != nil || got.Credential == "" || got.Authority == "" {
		return workstation.Final(fmt.Errorf("the control plane at %s answered without a credential or without the operator's authority: check --proxy-url", s.at.Host))
	}
	s.last, s.asked = got, time.Now()
	s.until = s.asked.Add(min(left(answer, got), signed.Lifetime) / 2)
	return nil
}

// left returns how long a credential is valid, by the clock of the server if that is known.
func left(answer *http.Response, got signed.Grant) time.Duration {
	now, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return got.Expires.Sub(now)
}

// refused returns the error of an answer other than 200.
func (s *Source) refused(answer *http.Response, text []byte) error {
	says := strings.Join(strings.Fields(answer.Status+": "+strings.ToValidUTF8(string(text[:min(len(text), 256)]), "")), " ")
	switch answer.StatusCode {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return ErrNone
	case http.StatusUnauthorized, http.StatusForbidden:
		return workstation.Final(fmt.Errorf("the control plane at %s refuses the API key for this cluster: check the key, and that --cluster is the name of the cluster in the control plane (%s)", s.at.Host, says))
	}
	return fmt.Errorf("the control plane at %s issued no credential (%s)", s.at.Host, says)
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
