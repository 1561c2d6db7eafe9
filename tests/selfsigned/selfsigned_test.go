package selfsigned_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/selfsigned"
)

func TestTheCertificateCoversNameAndAddress(t *testing.T) {
	pair, err := selfsigned.New("server", net.IPv4(127, 0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "tls")
	if err := pair.Write(dir); err != nil {
		t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(dir, trust.CertFile), filepath.Join(dir, trust.KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := os.ReadFile(filepath.Join(dir, trust.BundleFile))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for host, known := range map[string]bool{"server": true, "127.0.0.1": true, "other": false} {
		if _, err := own.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); (err == nil) != known {
			t.Errorf("%s: %v", host, err)
		}
	}
}
