package trust

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"switchyard.dev/eventbus/wake"
)

// The files of a folder: those of a Secret of the type kubernetes.io/tls, and the bundle. Intermediate
// certificates follow the program's own in CertFile; BundleFile has the authorities above them.
const (
	CertFile   = "tls.crt"
	KeyFile    = "tls.key"
	BundleFile = "ca.crt"
)

// Config configures a Folder.
type Config struct {
	// Dir has the files. Required.
	Dir string
	// Name is the host for which clients must find the certificate good. Required.
	Name string
	// ByHand: users write the files, as those of a link server. Otherwise the controller manager does.
	ByHand bool
	// Every is the time between two reads. Default 1 s: the kubelet takes longer.
	Every time.Duration
	// Now returns the current time. Default time.Now.
	Now func() time.Time
	// Logger logs changes, and invalid files. Default: none.
	Logger *slog.Logger
}

// Folder is a program's certificate, and who it trusts, in files that are replaced. It is
// safe for concurrent use.
type Folder struct {
	cfg   Config
	roots *Roots

	mu   sync.Mutex
	cert *tls.Certificate
	read content
	told string // the last complaint
}

// content is the content of the files.
type content struct{ cert, key, bundle []byte }

func (c content) equal(d content) bool {
	return bytes.Equal(c.cert, d.cert) && bytes.Equal(c.key, d.key) && bytes.Equal(c.bundle, d.bundle)
}

// Open reads the folder. It is an error when a file is missing, or the certificate is expired, for
// another name, or not signed by an authority in the bundle, directly or through its intermediates.
func Open(c Config) (*Folder, error) {
	if c.Dir == "" || c.Name == "" {
		return nil, errors.New("TLS: Dir and Name are both needed")
	}
	c.Every = cmp.Or(c.Every, time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	f := &Folder{cfg: c, roots: NewRoots(filepath.Join(c.Dir, BundleFile))}
	return f, f.reload()
}

// Roots are the authorities in the folder.
func (f *Folder) Roots() *Roots { return f.roots }

// Run re-reads the files until ctx ends, and returns nil.
func (f *Folder) Run(ctx context.Context) error {
	for wake.Sleep(ctx, f.cfg.Every) {
		err := f.reload()
		if err != nil { // Perhaps the files were replaced between two reads.
			err = f.reload()
		}
		f.complain(err)
	}
	return nil
}

// complain logs an error, once for each reason.
func (f *Folder) complain(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.told = ""
	} else if err.Error() != f.told {
		f.told = err.Error()
		f.cfg.Logger.Error("the certificate cannot be used; the previous one stays in use until it expires", "error", err)
	}
}

// reload reads the files, and uses them if they are valid.
func (f *Folder) reload() error {
	var now content
	for name, to := range map[string]*[]byte{CertFile: &now.cert, KeyFile: &now.key, BundleFile: &now.bundle} {
		file := filepath.Join(f.cfg.Dir, name)
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("TLS: %s is missing: %s", file, f.cfg.remedy("the controller manager writes it into the Secret that is mounted there; see its log", "write it there"))
		}
		if err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		*to = text
	}
	f.mu.Lock()
	known, served := f.read, f.cert
	f.mu.Unlock()
	if served != nil && now.equal(known) {
		return f.usable(served.Leaf)
	}
	cert, err := f.check(now)
	if err != nil {
		return err
	}
	if err := f.roots.Set(now.bundle); err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cert, f.read = cert, now
	f.cfg.Logger.Info("serving with a certificate", "file", filepath.Join(f.cfg.Dir, CertFile), "name", f.cfg.Name,
		"authority", cert.Leaf.Issuer.CommonName, "expires", cert.Leaf.NotAfter)
	return nil
}

// check returns the certificate of the files, if clients will find it good.
func (f *Folder) check(c content) (*tls.Certificate, error) {
	file := filepath.Join(f.cfg.Dir, CertFile)
	cert, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("TLS: %s and %s are not a certificate and its key: %w. %s", file, KeyFile, err,
			f.cfg.remedy("Delete the Secret's data; the controller manager writes it again", "Write both again, as PEM"))
	}
	if err := f.usable(cert.Leaf); err != nil {
		return nil, err
	}
	roots := NewRoots(filepath.Join(f.cfg.Dir, BundleFile))
	if err := roots.Set(c.bundle); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	chain, err := shownBy(cert)
	if err != nil {
		return nil, fmt.Errorf("TLS: %s has an intermediate certificate that cannot be read: %w", file, err)
	}
	if err := roots.Verify(chain, f.cfg.Name, f.cfg.Now()); err != nil {
		return nil, fmt.Errorf("TLS: no client would accept the certificate in %s: %w. %s", file, err, f.cfg.remedy(
			"Does it belong to another program or cluster? Delete the Secret's data; the controller manager writes it again",
			"Write a certificate for host "+f.cfg.Name+" followed by its intermediates, and to "+BundleFile+" the CA certificate that signed the last one"))
	}
	return &cert, nil
}

// shownBy returns the certificates that a server with this one shows: its own first, then the intermediates.
func shownBy(cert tls.Certificate) ([]*x509.Certificate, error) {
	chain := []*x509.Certificate{cert.Leaf}
	for _, der := range cert.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		chain = append(chain, c)
	}
	return chain, nil
}

// remedy returns what to do about files of the controller manager, or of users.
func (c Config) remedy(manager, users string) string {
	if c.ByHand {
		return users
	}
	return manager
}

// usable returns nil when a certificate counts now.
func (f *Folder) usable(leaf *x509.Certificate) error {
	if now := f.cfg.Now(); !now.Before(leaf.NotAfter) {
		return fmt.Errorf("TLS: the certificate in %s expired at %s: %s", filepath.Join(f.cfg.Dir, CertFile), leaf.NotAfter.UTC().Format(time.RFC3339),
			f.cfg.remedy("the controller manager renews it; is that running?", "write a new one"))
	}
	return nil
}

// Server returns the configuration of a server that shows the certificate as it is at
// each connection, and none that has expired.
func (f *Folder) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, CurvePreferences: curves,
		// Our clients keep no sessions.
		SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.cert, f.usable(f.cert.Leaf)
		},
	}
}

// Mutual returns the configuration of both ends of connections between replicas of a program: each
// shows the certificate of the folder, and trusts one of the authorities for the folder's name.
func (f *Folder) Mutual() *tls.Config {
	config := f.Server()
	config.ClientAuth = tls.RequireAnyClientCert
	config.InsecureSkipVerify = true //nolint:gosec // verified below, for every connection
	config.VerifyConnection = func(s tls.ConnectionState) error { return f.roots.Verify(s.PeerCertificates, f.cfg.Name, time.Now()) }
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return config.GetCertificate(nil) }
	return config
}
