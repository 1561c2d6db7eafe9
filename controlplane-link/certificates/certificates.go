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
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	legolog "github.com/go-acme/lego/v5/log"
	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus/lists"
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

// Source has the certificates of the preview domains. Make one with New. It is safe for concurrent use.
type Source struct {
	cfg          Config
	issuer       *issuer // nil: files
	end, failure *prometheus.GaugeVec

	mu      sync.Mutex
	entries []entry
}

// entry is the certificate of a domain, nil while there is none, with its state.
type entry struct {
	State
	cert *tls.Certificate
}

// State is the state of the certificate of a domain, for users.
type State struct {
	// Domain is the preview domain that it is for.
	Domain string
	// End is the end of the certificate; zero: there is none.
	End time.Time
	// Failed is the time of the last attempt to renew it, if that has failed, or of the first failed read of the files,
	// and Reason the error.
	Failed time.Time
	Reason string
	// Problem is a warning for users, in one or two sentences: there is no certificate, or the one that there is ends
	// within 14 days and was not renewed. Empty: there is none.
	Problem string
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
	s := &Source{
		cfg: c, end: gauge("end_timestamp_seconds", "End of the certificate of a preview domain; 0: there is none."),
		failure: gauge("failure_timestamp_seconds", "Last attempt to read or renew the certificate of a preview domain, if it has failed; 0: it has not."),
	}
	if c.Metrics != nil {
		c.Metrics.MustRegister(s.end, s.failure)
	}
	for _, d := range c.Domains {
		s.entries = append(s.entries, entry{State: State{Domain: d}})
	}
	if c.Dir != "" {
		return s, nil
	}
	if err := c.ACME.check(); err != nil {
		return nil, err
	}
	s.issuer = &issuer{cfg: c.ACME, store: c.Store, now: c.Now, me: rand.Text()}
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
		for i, was := range s.current() {
			var next entry
			if s.issuer == nil {
				next = readFolder(s.cfg.Dir, was, s.cfg.Now())
			} else {
				next = s.issuer.check(ctx, was, order)
			}
			switch {
			case ctx.Err() != nil:
				return
			case next.cert != nil || order: // else the order can be the first one
				s.publish(i, was, next)
			}
		}
	}
}

// publish replaces the certificate of a domain.
func (s *Source) publish(i int, was, next entry) {
	next.describe(s.cfg.Now())
	s.mu.Lock()
	s.entries = slices.Clone(s.entries) // the old one may be in use
	s.entries[i] = next
	s.mu.Unlock()
	s.report(was, next)
}

// current returns the certificates. The caller does not change them.
func (s *Source) current() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries
}

// States returns the state of the certificate of each domain, as of the last check.
func (s *Source) States() []State {
	return lists.Map(s.current(), func(e entry) State { return e.State })
}

// Server returns the configuration of a server for HTTP/2 and HTTP/1.1 that shows the certificate for the name that a
// client asks for. A handshake without a name, or with one that no certificate has, fails.
func (s *Source) Server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: s.GetCertificate}
}

// GetCertificate returns the certificate for the name that a client asks for; nil: there is none, and the handshake fails
// with alert unrecognized_name. An expired certificate is shown too: clients name the problem.
func (s *Source) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.find(hello.ServerName), nil
}

// find returns the certificate for a host; nil: there is none.
func (s *Source) find(host string) *tls.Certificate {
	for _, e := range s.current() {
		if host != "" && e.cert != nil && e.cert.Leaf.VerifyHostname(host) == nil {
			return e.cert
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

// covers returns an error if a certificate lacks the wildcard of a domain.
func covers(cert *tls.Certificate, domain string) error {
	if err := cert.Leaf.VerifyHostname("preview." + domain); err != nil {
		return fmt.Errorf("it has no name *.%s: %w", domain, err)
	}
	return nil
}
