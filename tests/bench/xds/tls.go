package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/credentials"

	"switchyard.dev/eventbus/trust"
)

// certify makes credentials for the server, and the bundle by which clients know it. One
// certificate is both the authority's and the server's.
func certify() (credentials.TransportCredentials, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, DNSNames: []string{serverName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	folder, err := opened(map[string][]byte{
		trust.CertFile: bundle, trust.BundleFile: bundle,
		trust.KeyFile: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	})
	if err != nil {
		return nil, nil, err
	}
	return trust.ServerCredentials(folder.Server(), true), bundle, nil
}

// opened opens a folder with files as a route server does. They are gone afterwards.
func opened(files map[string][]byte) (*trust.Folder, error) {
	dir, err := os.MkdirTemp("", "bench-xds-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	return trust.Open(trust.Config{Dir: dir, Name: serverName})
}

// serverName is what clients call the server.
const serverName = "routeserver.signadot.svc"

// trusting are a client's credentials: those of sidecars, of this release where there is a
// bundle, and of an earlier one.
func trusting(bundle []byte) (credentials.TransportCredentials, error) {
	if bundle == nil {
		return trust.ClientCredentials(nil, ""), nil
	}
	roots := trust.NewRoots("the server")
	return trust.ClientCredentials(roots, serverName), roots.Set(bundle)
}
