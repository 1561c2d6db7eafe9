package trust

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"switchyard.dev/eventbus/wake"
)

// A bundle contains the authority, the next one, and previous ones: few. Larger bundles are not
// the operator's.
const (
	// MaxBundle bounds the bytes of a bundle, and maxAuthorities how many it has.
	MaxBundle      = 16 << 10
	maxAuthorities = 16
)

// Roots are the authorities that are trusted. They are safe for concurrent use.
type Roots struct {
	from string

	mu      sync.Mutex
	bundle  []byte
	pool    *x509.CertPool
	names   []string
	changed wake.Signal // the bundle is another one
	refusal error
}

// NewRoots returns empty Roots, which trust no peer. from names the source of the bundle in
// errors.
func NewRoots(from string) *Roots { return &Roots{from: from} }

// ReadRoots returns Roots with the authorities of a file. from is as in NewRoots.
func ReadRoots(file, from string) (*Roots, error) {
	bundle, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := NewRoots(from)
	if err := r.Set(bundle); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// Set replaces the trusted authorities by a bundle: certificates, as PEM. An invalid bundle is
// an error, and changes nothing.
func (r *Roots) Set(bundle []byte) error {
	certs, err := ReadBundle(bundle)
	if err != nil {
		return fmt.Errorf("%s: %w", r.from, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes.Equal(r.bundle, bundle) {
		return nil
	}
	r.bundle, r.pool, r.names = bytes.Clone(bundle), x509.NewCertPool(), nil
	for _, c := range certs {
		r.pool.AddCert(c)
		r.names = append(r.names, c.Subject.CommonName)
	}
	r.changed.Send()
	return nil
}

// Bundle returns the trusted authorities, as PEM, and a channel that is closed when they
// change.
func (r *Roots) Bundle() ([]byte, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bundle, r.changed.Next()
}

// PEM returns the trusted certificates in PEM form.
func (r *Roots) PEM() string {
	bundle, _ := r.Bundle()
	return string(bundle)
}

// ReadBundle returns the certificates of a bundle: authorities alone, one at least.
func ReadBundle(bundle []byte) ([]*x509.Certificate, error) {
	if len(bundle) > MaxBundle {
		return nil, fmt.Errorf("a bundle of authorities has %d bytes at most, and this one %d", MaxBundle, len(bundle))
	}
	var certs []*x509.Certificate
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil:
			return nil, fmt.Errorf("an authority's certificate cannot be read: %w", err)
		case !cert.IsCA:
			return nil, fmt.Errorf("the certificate %q is not an authority's", cert.Subject.CommonName)
		}
		certs = append(certs, cert)
	}
	switch {
	case len(certs) == 0:
		return nil, errors.New("there is no certificate of an authority, as PEM")
	case len(certs) > maxAuthorities:
		return nil, fmt.Errorf("there are %d authorities; at most %d are accepted", len(certs), maxAuthorities)
	}
	return certs, nil
}

// Verify reports why a peer is not believed to have a name: nil when it is. shown is what
// it shows, its own certificate first.
func (r *Roots) Verify(shown []*x509.Certificate, name string, now time.Time) error {
	r.mu.Lock()
	pool, names := r.pool, r.names
	r.mu.Unlock()
	switch {
	case name == "":
		return &UntrustedError{Peer: "somebody", Why: "it is not known who it should be"}
	case pool == nil:
		return &UntrustedError{Peer: name, Why: fmt.Sprintf("no authority is known yet (%s)", r.from)}
	case len(shown) == 0:
		return &UntrustedError{Peer: name, Why: "it shows no certificate"}
	}
	if err := verify(pool, shown, name, now); err != nil {
		return &UntrustedError{Peer: name, Why: r.why(shown[0], names, now, err), err: err}
	}
	return nil
}

func verify(pool *x509.CertPool, shown []*x509.Certificate, name string, now time.Time) error {
	options := x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: now, Intermediates: x509.NewCertPool()}
	for _, c := range shown[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := shown[0].Verify(options)
	return err
}

// VerifyWithSystem is Roots.Verify with the authorities of the system.
func VerifyWithSystem(shown []*x509.Certificate, name string, now time.Time) error {
	if len(shown) == 0 {
		return errors.New("the server shows no certificate")
	}
	return verify(nil, shown, name, now)
}

// why returns in words what x509 has found.
func (r *Roots) why(cert *x509.Certificate, names []string, now time.Time, err error) string {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	var host x509.HostnameError
	switch {
	case now.After(cert.NotAfter):
		return fmt.Sprintf("its certificate expired at %s; the controller manager renews it: is that running?", at(cert.NotAfter))
	case now.Before(cert.NotBefore):
		return fmt.Sprintf("its certificate is valid from %s: is a clock wrong?", at(cert.NotBefore))
	case errors.As(err, &host):
		return fmt.Sprintf("its certificate is for %s", strings.Join(hosts(cert), ", "))
	}
	return fmt.Sprintf("its certificate is signed by %s, which is not a trusted authority (%s: %s)",
		cert.Issuer.CommonName, r.from, strings.Join(names, ", "))
}

// hosts lists the names and addresses a certificate is for.
func hosts(cert *x509.Certificate) []string {
	names := append([]string(nil), cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// UntrustedError is the error of a peer with a certificate that does not verify.
type UntrustedError struct {
	// Peer is the name that it should have; Why is the defect of its certificate.
	Peer, Why string
	err       error
}

// Error implements error.
func (e *UntrustedError) Error() string { return fmt.Sprintf("%s is not trusted: %s", e.Peer, e.Why) }

// Unwrap returns the cause, where that was an error of its own.
func (e *UntrustedError) Unwrap() error { return e.err }

// curves are those by which keys are agreed on. Those that are safe from computers to come
// cost half as much again, and 5,000 sidecars may come at once; the tokens that could be
// read then are good for an hour.
var curves = []tls.CurveID{tls.X25519}

// Client returns the configuration of a client that trusts the Roots as they are at each
// connection. name is the peer's, a host or an address.
func (r *Roots) Client(name string) *tls.Config {
	return &tls.Config{
		MinVersion:       tls.VersionTLS13,
		CurvePreferences: curves,
		ServerName:       name,
		// The library's own check knows one pool for the life of the configuration, so
		// VerifyConnection does all of it.
		InsecureSkipVerify: true, //nolint:gosec // verified below, for every connection
		VerifyConnection: func(s tls.ConnectionState) error {
			// Not s.ServerName, which is empty where the name is an address.
			err := r.Verify(s.PeerCertificates, name, time.Now())
			r.mu.Lock()
			defer r.mu.Unlock()
			r.refusal = err
			return err
		},
	}
}

// Refusal returns why the last peer of a Client was not trusted; nil when it was. It returns
// the error value that libraries pass on as text only.
func (r *Roots) Refusal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refusal
}
