package certificates

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"time"

	"switchyard.dev/eventbus/trust"
)

// readFolder reads the certificate of a domain in a folder, which other domains can share. The previous one stays if the new one cannot be used.
func readFolder(dir string, was entry, now time.Time) entry {
	cert, err := load(dir, was.Domain, now)
	if err != nil { // perhaps the files were replaced between two reads
		cert, err = load(dir, was.Domain, now)
	}
	if err != nil {
		return was.with(was.cert, now, err)
	}
	return entry{State: State{Domain: was.Domain}, cert: cert}
}

// load reads the files, and returns an error if clients would not accept the certificate for a domain.
func load(dir string, domain string, now time.Time) (*tls.Certificate, error) {
	file := filepath.Join(dir, trust.CertFile)
	cert, err := tls.LoadX509KeyPair(file, filepath.Join(dir, trust.KeyFile))
	if err == nil {
		err = covers(&cert, domain)
	}
	if err == nil && !now.Before(cert.Leaf.NotAfter) {
		err = fmt.Errorf("it expired at %s", cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if err != nil {
		return nil, fmt.Errorf("the certificate in %s with key %s cannot be used: %w", file, trust.KeyFile, err)
	}
	return &cert, nil
}
