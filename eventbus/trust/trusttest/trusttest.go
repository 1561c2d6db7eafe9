// Package trusttest makes authorities and certificates for tests: good ones, and such as
// are wrong.
package trusttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"switchyard.dev/eventbus/trust"
)

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is a certificate with its key, as PEM.
type Pair struct{ Cert, Key []byte }

// New makes an authority with a name.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	template := ca(name)
	a := &Authority{cert: template}
	a.cert, a.key = a.sign(t, template, nil)
	return a
}

// Intermediate makes an authority that this one signs.
func (a *Authority) Intermediate(t testing.TB, name string) *Authority {
	t.Helper()
	cert, key := a.sign(t, ca(name), a.key)
	return &Authority{cert: cert, key: key}
}

func ca(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

// Bundle returns the authority as the only one of a bundle.
func (a *Authority) Bundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Sign signs the SHA-256 of a message with the key of the authority, as ASN.1.
func (a *Authority) Sign(message []byte) ([]byte, error) {
	digest := sha256.Sum256(message)
	return ecdsa.SignASN1(rand.Reader, a.key, digest[:])
}

// Leaf makes a certificate for hosts, names or addresses.
func (a *Authority) Leaf(t testing.TB, hosts ...string) Pair {
	t.Helper()
	return a.leaf(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), hosts)
}

// Expired makes one that has expired.
func (a *Authority) Expired(t testing.TB, hosts ...string) Pair {
	t.Helper()
	return a.leaf(t, time.Now().Add(-time.Hour), time.Now().Add(-time.Minute), hosts)
}

func (a *Authority) leaf(t testing.TB, from, to time.Time, hosts []string) Pair {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: hosts[0]}, NotBefore: from, NotAfter: to,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	cert, key := a.sign(t, template, a.key)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
	}
}

func (a *Authority) sign(t testing.TB, template *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err == nil && by == nil {
		by = key
	}
	if err == nil {
		template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	}
	var der []byte
	if err == nil {
		der, err = x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), by)
	}
	var cert *x509.Certificate
	if err == nil {
		cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// Write writes a certificate into a folder, with the authority as its bundle.
func (a *Authority) Write(t testing.TB, dir string, p Pair) {
	t.Helper()
	File(t, dir, trust.CertFile, p.Cert)
	a.WriteKey(t, dir, p)
	File(t, dir, trust.BundleFile, a.Bundle())
}

// WriteKey writes the key alone.
func (a *Authority) WriteKey(t testing.TB, dir string, p Pair) {
	t.Helper()
	File(t, dir, trust.KeyFile, p.Key)
}

// File replaces one file.
func File(t testing.TB, dir, name string, content []byte) {
	t.Helper()
	beside := filepath.Join(dir, name+".new")
	err := os.WriteFile(beside, content, 0o600)
	if err == nil {
		err = os.Rename(beside, filepath.Join(dir, name))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Server is the configuration of a server that shows a certificate, whatever it is worth.
func Server(t testing.TB, p Pair) *tls.Config {
	t.Helper()
	cert, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}
}

// Serve shakes hands at an address, with any certificate, and hangs up.
func Serve(t testing.TB, p Pair) (address string) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", Server(t, p))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = c.SetDeadline(time.Now().Add(2 * time.Second))
				_, _ = io.ReadFull(c, make([]byte, 24))
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}
