package certificates

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"time"

	"switchyard.dev/eventbus/trust"
)

// readFolder reads the certificate of a folder. The previous one stays if the new one cannot be used; failed is the
// first read with this error.
func readFolder(dir string, was entry, now time.Time) entry {
	cert, err := load(dir, was.domains, now)
	if err != nil { // perhaps the files were replaced between two reads
		cert, err = load(dir, was.domains, now)
	}
	if err != nil {
		failed := entry{domains: was.domains, cert: was.cert, failed: now, reason: err.Error()}
		if failed.reason == was.reason {
			failed.failed = was.failed
		}
		return failed
	}
	return entry{domains: was.domains, cert: cert}
}

// load reads the files, and returns an error if clients would not accept the certificate for all domains.
func load(dir string, domains []string, now time.Time) (*tls.Certificate, error) {
	file := filepath.Join(dir, trust.CertFile)
	cert, err := tls.LoadX509KeyPair(file, filepath.Join(dir, trust.KeyFile))
	if err == nil {
		err = covers(&cert, domains)
	}
	if err == nil && !now.Before(cert.Leaf.NotAfter) {
		err = fmt.Errorf("it expired at %s", cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if err != nil {
		return nil, fmt.Errorf("the certificate in %s with key %s cannot be used: %w", file, trust.KeyFile, err)
	}
	return &cert, nil
}
