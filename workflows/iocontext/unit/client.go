package unit

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"

	"switchyard.dev/eventbus/wake"
	"switchyard.dev/workflows/iocontext"
)

// Server has the address of the IO context server, and the unit.
type Server struct {
	// Address is host:port, with https:// before it or without.
	Address string
	// CA are the authorities that verify the server, as PEM.
	CA string
	// Lifecycle and Unit name the unit.
	Lifecycle, Unit string
	// TokenFile has the token of the pod; it is read for each request, since the kubelet replaces
	// it.
	TokenFile string
	// Log logs each request that failed and is retried; nil: no logs.
	Log func(format string, args ...any)
}

// FromEnv reads a Server from the environment of the containers.
func FromEnv(getenv func(string) string) (Server, error) {
	s := Server{TokenFile: iocontext.TokenPath}
	for name, to := range map[string]*string{
		iocontext.EnvAddress: &s.Address, iocontext.EnvCA: &s.CA, iocontext.EnvLifecycle: &s.Lifecycle, iocontext.EnvUnit: &s.Unit,
	} {
		if *to = getenv(name); *to == "" {
			return s, fmt.Errorf("the environment does not have %s", name)
		}
	}
	return s, nil
}

// client sends requests to the server.
type client struct {
	Server
	http *http.Client
	url  string
	// most is the longest time between two attempts.
	most time.Duration
}

// Pauses between requests, and for how long a refusal of the token is not final: an API server
// may not have seen the pod yet.
const (
	firstPause  = 50 * time.Millisecond
	doubtToken  = time.Minute
	oneRequest  = 90 * time.Second
	maxRefusal  = 16 << 10
	idleWithin  = 30 * time.Second
	dialTimeout = 5 * time.Second
)

func (s Server) client(most time.Duration) (*client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(s.CA)) {
		return nil, fmt.Errorf("%s has no certificate of an authority, as PEM", iocontext.EnvCA)
	}
	transport := &http.Transport{ // no proxy: pods reach each other
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout: idleWithin, ExpectContinueTimeout: dialTimeout,
	}
	return &client{
		Server: s, most: most, url: "https://" + strings.TrimPrefix(s.Address, "https://") + "/v1/units/" + s.Lifecycle + "/" + s.Unit,
		http: &http.Client{Transport: transport, Timeout: oneRequest},
	}, nil
}

// until sends a request repeatedly until it is answered, and calls read with the answer. The
// error is a *iocontext.Refusal that a retry does not change, or that of ctx with the last problem.
func (c *client) until(ctx context.Context, method, path string, body []byte, read func(io.Reader) error) error {
	var doubted time.Time
	attempt := 0
	for pause := firstPause; ; pause = min(2*pause, c.most) {
		attempt++
		err := c.once(ctx, method, path, body, read)
		final := (*iocontext.Refusal)(nil)
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &final):
			doubted = time.Time{}
		case final.Reason != iocontext.TokenRefused:
			return err
		case doubted.IsZero():
			doubted = time.Now()
		case time.Since(doubted) > doubtToken:
			return err
		}
		if c.Log != nil {
			c.Log("%s %s: attempt %d failed; retrying: %v", method, path, attempt, err)
		}
		if !wake.Sleep(ctx, pause/2+rand.N(pause)) { //nolint:gosec // spreads the retries of many pods
			return errors.Join(ctx.Err(), err)
		}
	}
}

// once sends a request. The error is a *iocontext.Refusal when the answer is final.
func (c *client) once(ctx context.Context, method, path string, body []byte, read func(io.Reader) error) error {
	token, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if len(body) > 0 {
		// The body of a refused request is not sent.
		r.Header.Set("Expect", "100-continue")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 == 2 {
		return read(answer.Body)
	}
	var why iocontext.Refusal
	err = json.NewDecoder(io.LimitReader(answer.Body, maxRefusal)).Decode(&why)
	switch {
	case err != nil || why.Reason == "": // some other server, on the way
		return fmt.Errorf("%s answers with status %d", c.Address, answer.StatusCode)
	case answer.StatusCode >= 500 || why.Reason == iocontext.NotYet || why.Reason == iocontext.TryAgain:
		return errors.New(why.Message)
	}
	return &why
}
