// Package selfsigned makes certificates for servers of tests and benchmarks, and for their clients, each of which is its
// own authority. Wrong certificates, and authorities that change, are in eventbus/trust/trusttest.
package selfsigned

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"switchyard.dev/eventbus/trust"
)

// Pair is a certificate with its key, as PEM.
type Pair struct{ Cert, Key []byte }

// New makes a certificate for a name and for addresses, which is valid for a day.
func New(name string, addresses ...net.IP) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: addresses,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Pair{}, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	return Pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	}, err
}

// Sign signs the SHA-256 of a message with the key, as ASN.1.
func (p Pair) Sign(message []byte) ([]byte, error) {
	block, _ := pem.Decode(p.Key)
	if block == nil {
		return nil, errors.New("the pair has no key")
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(message)
	return ecdsa.SignASN1(rand.Reader, key, digest[:])
}

// Write writes the files that our servers read, into a folder that is made for them.
func (p Pair) Write(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	for name, content := range map[string][]byte{trust.CertFile: p.Cert, trust.KeyFile: p.Key, trust.BundleFile: p.Cert} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return err
}
