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

// Source has the certificates of the preview domains. Make one with New. It is safe for concurrent use.
type Source struct {
	cfg          Config
	issuer       *issuer // nil: files
	end, failure *prometheus.GaugeVec
	entries      []atomic.Pointer[entry] // by domain; Run replaces them
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
		cfg: c, entries: make([]atomic.Pointer[entry], len(c.Domains)),
		end:     gauge("end_timestamp_seconds", "End of the certificate of a preview domain; 0: there is none."),
		failure: gauge("failure_timestamp_seconds", "Last attempt to read or renew the certificate of a preview domain, if it has failed; 0: it has not."),
	}
	for i, d := range c.Domains {
		s.entries[i].Store(&entry{State: State{Domain: d}})
	}
	if c.Dir != "" {
		return s, nil
	}
	if err := c.ACME.check(); err != nil {
		return nil, err
	}
	s.issuer = &issuer{ACME: c.ACME, store: c.Store, now: c.Now}
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
		for i := range s.entries {
			was := *s.entries[i].Load()
			var next entry
			if s.issuer == nil {
				next = readFolder(s.cfg.Dir, was, s.cfg.Now())
			} else {
				next = s.issuer.check(ctx, was, order)
			}
			if ctx.Err() != nil {
				return
			}
			if next.cert != nil || order { // else the order can be the first one
				next.describe(s.cfg.Now())
				s.entries[i].Store(&next)
				s.report(was, next)
			}
		}
	}
}

// States returns the state of the certificate of each domain, as of the last check.
func (s *Source) States() []State {
	all := make([]State, len(s.entries))
	for i := range s.entries {
		all[i] = s.entries[i].Load().State
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
	for i := range s.entries {
		if cert := s.entries[i].Load().cert; host != "" && cert != nil && cert.Leaf.VerifyHostname(host) == nil {
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
