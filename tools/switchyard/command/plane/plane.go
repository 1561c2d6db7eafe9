// Package plane calls the REST API of a control plane with an API key.
package plane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"switchyard.dev/eventbus/trust"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/command/exit"
)

// KeyHeader is the header with the API key.
const KeyHeader = "Signadot-Api-Key"

// Environment variables. There is none for a file, and no flag for the key, since arguments are visible to
// all users of a machine. The published client reads the last two.
const (
	URLVariable          = "SWITCHYARD_CONTROL_PLANE"
	KeyVariable          = "SIGNADOT_API_KEY"
	OrganisationVariable = "SIGNADOT_ORG"
)

// Config names a control plane, and its user.
type Config struct {
	// URL is that of the API, with or without its path.
	URL string
	// Organisation is empty for that of the API key.
	Organisation string
	// KeyFile has the API key; empty: KeyVariable has it.
	KeyFile string
	// Authority is a file with the authority that signs the certificate of the control plane; empty: those
	// of the system.
	Authority string
}

// Plane is a control plane with an organisation. Make one with Open.
type Plane struct {
	// API is its client.
	API *v2.Client
	// Org is the organisation.
	Org string
}

// Open returns the control plane, and reads the organisation of the API key if none is named.
func Open(ctx context.Context, c Config, getenv func(string) string) (*Plane, error) {
	at, err := c.address()
	if err != nil {
		return nil, err
	}
	key, err := Key(c.KeyFile, getenv(KeyVariable))
	if err != nil {
		return nil, err
	}
	if key == "" {
		return nil, exit.Usage.Errorf("there is no API key for the control plane: set %s, or give a file with --api-key-file", KeyVariable)
	}
	roots, err := Roots(c.Authority)
	if err != nil {
		return nil, err
	}
	p := &Plane{Org: c.Organisation, API: &v2.Client{
		Server: strings.TrimSuffix(at.String(), "/") + "/",
		Client: &doer{http.Client{
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, TLSHandshakeTimeout: within},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the key is for this server
		}},
		RequestEditors: []v2.RequestEditorFn{func(_ context.Context, r *http.Request) error {
			r.Header.Set(KeyHeader, key)
			r.Header.Set("User-Agent", userAgent)
			return nil
		}},
	}}
	if p.Org != "" {
		return p, nil
	}
	known, err := Answer[v2.OrgsGetOrgNameResponse](p.API.GetOrgs(ctx))
	if err != nil {
		return nil, err
	}
	if len(known.Orgs) != 1 {
		return nil, exit.Usage.Errorf("the API key is of %d organisations: name one with --organisation", len(known.Orgs))
	}
	p.Org = known.Orgs[0].Name
	return p, nil
}

// userAgent is the User-Agent of the command line, as for API servers.
const userAgent = "switchyard-cli"

// within bounds a TLS handshake.
const within = 15 * time.Second

// root is the path of the API.
const root = "/api/v2"

// address returns the URL of the API. The error does not have the URL, which may have a password.
func (c Config) address() (*url.URL, error) {
	at, err := url.Parse(c.URL)
	if err != nil {
		at = &url.URL{}
	}
	switch host := at.Hostname(); {
	case host == "" || at.Scheme != "https" && at.Scheme != "http" || at.RawQuery != "" || at.Fragment != "":
		return nil, exit.Usage.Errorf("--control-plane is not the URL of a control plane, such as https://control.example.com")
	case at.User != nil:
		return nil, exit.Usage.Errorf("--control-plane has a user or a password, which other users of this machine could read: set %s, or give a file with --api-key-file", KeyVariable)
	case at.Scheme == "http" && host != "localhost" && !net.ParseIP(host).IsLoopback():
		return nil, exit.Usage.Errorf("--control-plane would send the API key to %s in clear: give an https URL", host)
	}
	at.Path = strings.TrimSuffix(strings.TrimSuffix(at.Path, "/"), root) + root
	return at, nil
}

// Roots returns the authorities of a file; nil for those of the system if no file is named.
func Roots(file string) (*x509.CertPool, error) {
	roots, err := trust.Pool(file)
	if err != nil {
		return nil, exit.Usage.Errorf("the file of --control-plane-ca cannot be read: %w", err)
	}
	return roots, nil
}

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

// doer sends requests, and again those that a busy control plane has refused.
type doer struct{ http.Client }

// Do implements v2.HttpRequestDoer. Its errors are for users.
func (d *doer) Do(r *http.Request) (*http.Response, error) {
	for {
		answer, err := d.Client.Do(r)
		if err != nil {
			return nil, unreached(r, err)
		}
		busy := answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable && r.Method == http.MethodGet
		if !busy {
			return answer, nil
		}
		select {
		case <-r.Context().Done():
			return answer, nil
		case <-time.After(again):
		}
		_ = answer.Body.Close()
		if r.GetBody != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, fmt.Errorf("send the request again: %w", err)
			}
		}
	}
}

// again is the time before a request is sent again.
const again = time.Second
