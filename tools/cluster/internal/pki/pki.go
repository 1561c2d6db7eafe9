// Package pki creates the keys and certificates of one node: an authority, one certificate for each
// client of the API server, with no more permissions than its name has, and the key that signs
// service account tokens.
//
// Everything is created once and kept; a second call reads it. Keys are ECDSA on P-256, which takes
// less than a millisecond to create. Key files are readable only by root.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"switchyard.dev/tools/cluster/internal/atomicfile"
)

// lifetime of every certificate. A node lives for a day, not for a year.
const lifetime = 365 * 24 * time.Hour

// Leaf describes one certificate.
type Leaf struct {
	// File is the name of its files, without .crt and .key.
	File string
	// User and Groups are the identity of the owner for the API server.
	User   string
	Groups []string
	// Names and IPs are what a server with it is called.
	Names []string
	IPs   []net.IP
}

// Authority signs certificates. Its own files are File.crt and File.key in Dir.
type Authority struct {
	Dir, File string
	key       *ecdsa.PrivateKey
	cert      *x509.Certificate
}

// Open reads the authority from dir, or makes it. now is when its certificate begins.
func Open(dir, file string, now time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for keys: %w", err)
	}
	a := &Authority{Dir: dir, File: file}
	err := a.read()
	if errors.Is(err, fs.ErrNotExist) {
		err = a.make(now)
	}
	if err != nil {
		return nil, fmt.Errorf("authority %s: %w", file, err)
	}
	return a, nil
}

func (a *Authority) read() error {
	key, err := readPEM(filepath.Join(a.Dir, a.File+".key"))
	if err != nil {
		return err
	}
	cert, err := readPEM(filepath.Join(a.Dir, a.File+".crt"))
	if err != nil {
		return err
	}
	if a.key, err = x509.ParseECPrivateKey(key); err != nil {
		return fmt.Errorf("reading the key: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(cert); err != nil {
		return fmt.Errorf("reading the certificate: %w", err)
	}
	return nil
}

func (a *Authority) make(now time.Time) error {
	template := template(now)
	template.Subject = pkix.Name{CommonName: a.File}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("signing itself: %w", err)
	}
	if err := writePair(filepath.Join(a.Dir, a.File), der, key); err != nil {
		return err
	}
	return a.read()
}

// Issue makes the certificate of one leaf, unless its files are there already.
func (a *Authority) Issue(leaf Leaf, now time.Time) error {
	path := filepath.Join(a.Dir, leaf.File)
	if _, err := os.Stat(path + ".crt"); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making a key for %s: %w", leaf.File, err)
	}
	t := template(now)
	t.Subject = pkix.Name{CommonName: leaf.User, Organization: leaf.Groups}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(leaf.Names)+len(leaf.IPs) > 0 {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		t.DNSNames, t.IPAddresses = leaf.Names, leaf.IPs
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("signing the certificate of %s: %w", leaf.File, err)
	}
	return writePair(path, der, key)
}

// SigningKey makes the key pair that signs service account tokens: file.key and
// file.pub. It does nothing when they are there.
func SigningKey(dir, file string) error {
	path := filepath.Join(dir, file)
	if _, err := os.Stat(path + ".pub"); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the key of service account tokens: %w", err)
	}
	if err := writeKey(path, key); err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("writing the public key of service account tokens: %w", err)
	}
	return writePEM(path+".pub", "PUBLIC KEY", public, 0o644)
}

// template has what all certificates share. The hour before now is for clocks
// that are not quite the same.
func template(now time.Time) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime)}
}

// writePair writes the key first: a certificate that exists has its key.
func writePair(path string, cert []byte, key *ecdsa.PrivateKey) error {
	if err := writeKey(path, key); err != nil {
		return err
	}
	return writePEM(path+".crt", "CERTIFICATE", cert, 0o644)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("writing a key: %w", err)
	}
	return writePEM(path+".key", "EC PRIVATE KEY", der, 0o600)
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	content := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := atomicfile.Write(path, content, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func readPEM(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s is not a PEM file: remove it and start again", path)
	}
	return block.Bytes, nil
}
