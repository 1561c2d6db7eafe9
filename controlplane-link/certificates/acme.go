package certificates

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

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

// dns reads the settings of DNS updates.
func (a *ACME) dns() (*DNS, error) {
	d := &DNS{}
	info, err := os.Stat(a.RFC2136)
	if err == nil {
		d.changed = info.ModTime()
		var text []byte
		if text, err = os.ReadFile(a.RFC2136); err == nil {
			err = yaml.UnmarshalStrict(text, d)
		}
	}
	if err == nil && (d.Nameserver == "" || d.KeyName == "" || d.Secret == "") {
		err = errors.New("write nameserver (the host:port that takes updates of the zone), keyName and secret")
	}
	if err != nil {
		return nil, fmt.Errorf("settings of DNS updates in %s: %w", a.RFC2136, err)
	}
	return d, nil
}

// roots returns the authorities of the server; nil: those of the system.
func (a *ACME) roots() (*x509.CertPool, error) {
	if a.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(a.CAFile)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = fmt.Errorf("%s has no certificate in PEM", a.CAFile)
	}
	if err != nil {
		return nil, fmt.Errorf("authorities of the ACME server: %w", err)
	}
	return pool, nil
}
