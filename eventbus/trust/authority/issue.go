package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// backdate lets a certificate count at once where a clock is a little behind: but for a
// small part of its life, since it is renewed at half of that.
const backdate = 5 * time.Minute

const (
	certBlock = "CERTIFICATE"
	keyBlock  = "EC PRIVATE KEY"
)

// change returns the State after the steps that concern it. Publish does not.
func change(now time.Time, s State, steps []Step, p Policy) (State, error) {
	var err error
	for _, step := range steps {
		switch step {
		case Begin:
			s = State{}
			s.Current, err = newAuthority(now, p.Authority)
		case Announce:
			s.Next, err = newAuthority(now, p.Authority)
			s.NextPublished = time.Time{}
		case Note:
			s.NextPublished = now
		case Promote:
			if s.Current != nil && now.Before(s.Current.Cert.NotAfter) {
				s.Retired = append(slices.Clone(s.Retired), s.Current)
			}
			s.Current, s.Next, s.NextPublished, s.Promoted = s.Next, nil, time.Time{}, now
		case Forget:
			s.Retired = slices.DeleteFunc(slices.Clone(s.Retired), func(a *Pair) bool {
				return !now.Before(s.Promoted.Add(2*p.Leaf)) || !now.Before(a.Cert.NotAfter)
			})
		case Issue:
			s.Leaf, err = newLeaf(now, s.Current, p.Leaf, p.Hosts)
		case Publish:
		}
		if err != nil {
			return State{}, fmt.Errorf("%s: %w", step, err)
		}
	}
	return s, nil
}

func newAuthority(now time.Time, life time.Duration) (*Pair, error) {
	template, err := newTemplate(now, life)
	if err != nil {
		return nil, err
	}
	template.Subject = pkix.Name{CommonName: "switchyard authority " + template.SerialNumber.Text(36)}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	return sign(template, nil)
}

func newLeaf(now time.Time, by *Pair, life time.Duration, hosts []string) (*Pair, error) {
	if len(hosts) == 0 {
		return nil, errors.New("no host to issue a certificate for")
	}
	template, err := newTemplate(now, life)
	if err != nil {
		return nil, err
	}
	template.Subject = pkix.Name{CommonName: hosts[0]}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if template.NotAfter.After(by.Cert.NotAfter) {
		template.NotAfter = by.Cert.NotAfter
	}
	return sign(template, by)
}

func newTemplate(now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-min(backdate, life/24)), NotAfter: now.Add(life)}, nil
}

// sign makes a key and a certificate for it, signed by an authority or, when it
// is nil, by itself.
func sign(template *x509.Certificate, by *Pair) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	parent, signer := template, key
	if by != nil {
		parent = by.Cert
		if signer, err = parseKey(by.KeyPEM); err != nil {
			return nil, err
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Pair{
		Cert:    cert,
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: der}),
		KeyPEM:  pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: keyDER}),
	}, nil
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != keyBlock {
		return nil, errors.New("not an EC private key")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}
