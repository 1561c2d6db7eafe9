package controlplane_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/tools/switchyard/local/controlplane"
	"switchyard.dev/tunnels/credential/signed"
)

// server is a control plane that counts its grants.
type server struct {
	*testing.T
	http.Handler
	asked atomic.Int32
	left  time.Duration
}

func newServer(t *testing.T) (*server, *controlplane.Source) {
	t.Helper()
	s := &server{T: t, left: signed.Lifetime}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.asked.Add(1)
		if r.Method != http.MethodPost || r.URL.Path != signed.GrantPath || r.URL.RawQuery != "" || r.Header.Get("Signadot-Api-Key") != "the-key" {
			t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
		}
		_ = json.NewEncoder(w).Encode(signed.Grant{Credential: "c" + string(rune('0'+n)), Expires: time.Now().Add(s.left), Authority: "pem"})
	})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(w, r) }))
	t.Cleanup(web.Close)
	at, err := url.Parse(web.URL + "/other?x=y")
	if err != nil {
		t.Fatal(err)
	}
	return s, controlplane.New(at, http.Header{"Signadot-Api-Key": {"the-key"}}, nil)
}

func (s *server) token(source *controlplane.Source, again bool, want string) {
	s.Helper()
	if got, err := source.Token(s.Context(), again); err != nil || got != want {
		s.Errorf("%q, %v, want %q", got, err, want)
	}
}

func TestACredentialIsUsedForHalfOfItsLifetime(t *testing.T) {
	s, source := newServer(t)
	if got, err := source.Authority(t.Context()); err != nil || string(got) != "pem" {
		t.Fatalf("%q, %v", got, err)
	}
	s.token(source, false, "c1") // of the same grant
	s.token(source, false, "c1")
	s.token(source, true, "c2") // c1 was refused
	s.left = -time.Second       // a credential that has expired
	s.token(source, true, "c3")
	s.token(source, false, "c4")
}

func TestRefusalsOfTheControlPlane(t *testing.T) {
	s, source := newServer(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirection is followed with %v", r.Header)
	}))
	defer elsewhere.Close()
	for what, c := range map[string]struct {
		code int
		body string
		none bool
		says string
	}{
		"of another product":      {http.StatusNotFound, "404", true, "issues no credentials"},
		"of a proxy alone":        {http.StatusMethodNotAllowed, "", true, "issues no credentials"},
		"an unknown key":          {http.StatusUnauthorized, "who?", false, "refuses the API key for this cluster"},
		"a cluster of others":     {http.StatusForbidden, "", false, "--cluster is the name"},
		"a cluster that is away":  {http.StatusServiceUnavailable, "no agent\n\x1b[31m", false, "issued no credential (503 Service Unavailable: no agent"},
		"a redirection":           {http.StatusTemporaryRedirect, "", false, "307"},
		"another document":        {http.StatusOK, "<html>", false, "check --proxy-url"},
		"a grant without a token": {http.StatusOK, `{"authority": "pem"}`, false, "check --proxy-url"},
	} {
		s.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(c.code)
			_, _ = io.WriteString(w, c.body)
		})
		for part, ask := range map[string]func() error{
			"token": func() error { _, err := source.Token(t.Context(), false); return err }, "authority": func() error { _, err := source.Authority(t.Context()); return err },
		} {
			if err := ask(); err == nil || errors.Is(err, controlplane.ErrNone) != c.none || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "the-key") {
				t.Errorf("%s, %s: %v", what, part, err)
			}
		}
	}
}
