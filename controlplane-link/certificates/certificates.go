// Package certificates has the certificates of the preview domains: wildcards, so that a preview needs no certificate
// of its own, and none is requested on demand.
//
//   - From files: a folder with tls.crt and tls.key, such as a Secret of cert-manager. It is re-read regularly.
//   - From an ACME server, with DNS-01: the TXT record is written by RFC 2136 updates with TSIG. Each domain has a
//     certificate of its own. Certificates, the account and failed attempts are in the store, which all replicas share;
//     the replica that has the lease of a domain orders (record 72).
//
// A certificate that cannot be used or renewed never ends the process: States, the log and metrics report it.
package certificates

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	legolog "github.com/go-acme/lego/v5/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"switchyard.dev/eventbus/wake"
)

// Config configures a Source.
type Config struct {
	// Domains are the preview domains. Hosts of previews are one label below one. Required.
	Domains []string
	// Dir is a folder with tls.crt (the certificate, then its intermediates) and tls.key. Empty: ACME.
	Dir string
	// ACME is required without Dir, and Store with it.
	ACME  *ACME
	Store Store
	// Metrics registers the metrics. Default: they are not registered.
	Metrics prometheus.Registerer
	// Now returns the current time. Default: time.Now.
	Now func() time.Time
	// Logger is required.
	Logger *slog.Logger
}

// ACME are the settings of certificates from an ACME server. The files are read before each attempt.
type ACME struct {
	// Directory is the URL of the server's directory. Required.
	Directory string
	// AcceptTerms is whether the terms of service of the server are accepted. Required.
	AcceptTerms bool
	// Email is the contact of the account. Empty: none. Another one is another account.
	Email string
	// CAFile has the authorities of the server in PEM. Empty: those of the system.
	CAFile string
	// RFC2136 is the file with the settings of DNS updates, a DNS in YAML. Required.
	RFC2136 string
}

// check returns an error if the settings are not valid.
func (a *ACME) check() error {
	switch {
	case !strings.HasPrefix(a.Directory, "https://"):
		return errors.New("the ACME directory is not a URL like https://acme.example.com/directory")
	case !a.AcceptTerms:
		return errors.New("the terms of service of the ACME server are not accepted: read them, then set -acme-accept-terms (value previews.acme.acceptTerms)")
	case a.RFC2136 == "":
		return errors.New("certificates from an ACME server need the settings of DNS updates: set -acme-rfc2136 (value previews.acme.rfc2136.secret)")
	}
	return nil
}

// Source has the certificates of the preview domains. Make one with New. It is safe for concurrent use.
type Source struct {
	cfg Config
	// read returns the certificate of a domain, after an order if one is due and may be sent.
	read         func(ctx context.Context, was State, order bool) State
	end, failure *prometheus.GaugeVec
	states       []atomic.Pointer[State] // by domain; Run replaces them
}

// New returns a source. The caller calls Run. It is an error if the configuration is not valid; that there is no
// certificate is none.
func New(c Config) (*Source, error) {
	if len(c.Domains) == 0 || (c.Dir == "") == (c.ACME == nil) {
		return nil, errors.New("certificates of previews are from a folder or from an ACME server: set one of -previews-tls-dir and -acme-directory (value previews.tls.secret or previews.acme.directory)")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return promauto.With(c.Metrics).NewGaugeVec(prometheus.GaugeOpts{Name: "switchyard_certificate_" + name, Help: help}, []string{"domain"})
	}
	s := &Source{
		cfg: c, states: make([]atomic.Pointer[State], len(c.Domains)),
		end:     gauge("end_timestamp_seconds", "End of the certificate of a preview domain; 0: there is none."),
		failure: gauge("failure_timestamp_seconds", "Last attempt to read or renew the certificate of a preview domain, if it has failed; 0: it has not."),
	}
	for i, d := range c.Domains {
		s.states[i].Store(&State{Domain: d})
	}
	if c.Dir != "" {
		s.read = func(_ context.Context, was State, _ bool) State { return readFolder(c.Dir, was, c.Now()) }
		return s, nil
	}
	if err := c.ACME.check(); err != nil {
		return nil, err
	}
	s.read = (&issuer{ACME: c.ACME, store: c.Store, now: c.Now}).check
	legolog.SetDefault(c.Logger) // the library has one for the process
	return s, nil
}

// checkEvery is the pause between two reads of the folder, or of the store.
const checkEvery = 10 * time.Second

// Run reads, orders and renews certificates until ctx ends, and returns nil.
func (s *Source) Run(ctx context.Context) error {
	for s.check(ctx); wake.Sleep(ctx, checkEvery); {
		s.check(ctx)
	}
	return nil
}

// check reads each certificate, and then renews those that are due: an order can take minutes.
func (s *Source) check(ctx context.Context) {
	for _, order := range []bool{false, true} {
		for i := range s.states {
			was := *s.states[i].Load()
			next := s.read(ctx, was, order)
			if ctx.Err() != nil {
				return
			}
			next.describe(s.cfg.Now())
			s.states[i].Store(&next)
			s.report(was, next)
		}
	}
}

// States returns the state of the certificate of each domain, as of the last check.
func (s *Source) States() []State {
	all := make([]State, len(s.states))
	for i := range s.states {
		all[i] = *s.states[i].Load()
	}
	return all
}

// Server returns the configuration of a server for HTTP/2 and HTTP/1.1 that shows the certificate for the name that a
// client asks for. Without a name, or with one that no certificate has, the handshake fails with alert unrecognized_name.
// An expired certificate is shown too: clients name the problem.
func (s *Source) Server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return s.find(hello.ServerName), nil
	}}
}

// find returns the certificate for a host; nil: there is none.
func (s *Source) find(host string) *tls.Certificate {
	for i := range s.states {
		if cert := s.states[i].Load().cert; host != "" && cert != nil && cert.Leaf.VerifyHostname(host) == nil {
			return cert
		}
	}
	return nil
}

// Covers reports whether the certificate of a connection for a server name (tls.ConnectionState.ServerName) has a host
// (of a request, without its port). Otherwise the answer to the request is 421.
func (s *Source) Covers(serverName, host string) bool {
	cert := s.find(serverName)
	return cert != nil && cert.Leaf.VerifyHostname(host) == nil
}
