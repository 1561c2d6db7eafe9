package certificates

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"

	"sigs.k8s.io/yaml"
)

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

// settings are the content of the files.
type settings struct {
	dns   *DNS
	roots *x509.CertPool // nil: those of the system
	// digest is that of all settings.
	digest string
}

// check returns an error if the settings are not valid.
func (a *ACME) check() error {
	u, err := url.Parse(a.Directory)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "":
		return errors.New("the ACME directory is not a URL like https://acme.example.com/directory")
	case !a.AcceptTerms:
		return errors.New("the terms of service of the ACME server are not accepted: read them, then set -acme-accept-terms (value previews.acme.acceptTerms)")
	case a.RFC2136 == "":
		return errors.New("certificates from an ACME server need the settings of DNS updates: set -acme-rfc2136 (value previews.acme.rfc2136.secret)")
	}
	return nil
}

// read reads the files.
func (a *ACME) read() (*settings, error) {
	s := &settings{dns: &DNS{}}
	text, err := os.ReadFile(a.RFC2136)
	if err == nil {
		err = yaml.UnmarshalStrict(text, s.dns)
	}
	if err == nil {
		err = s.dns.check()
	}
	if err != nil {
		return nil, fmt.Errorf("settings of DNS updates in %s: %w", a.RFC2136, err)
	}
	var roots []byte
	if a.CAFile != "" {
		if roots, err = os.ReadFile(a.CAFile); err != nil {
			return nil, fmt.Errorf("authorities of the ACME server: %w", err)
		}
		s.roots = x509.NewCertPool()
		if !s.roots.AppendCertsFromPEM(roots) {
			return nil, fmt.Errorf("authorities of the ACME server: %s has no certificate in PEM", a.CAFile)
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", a.Directory, a.Email, text, roots))
	s.digest = hex.EncodeToString(sum[:])
	return s, nil
}
