package trust_test

import (
	"crypto/x509"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
)

// TestRootsOfAFile has a file with the authority of the test, none, and one that is no bundle.
func TestRootsOfAFile(t *testing.T) {
	dir, authority := t.TempDir(), trusttest.New(t, "acme")
	trusttest.File(t, dir, "ca.crt", authority.Bundle())
	trusttest.File(t, dir, "wrong.crt", []byte("wrong"))
	leaf := trusttest.Server(t, authority.Leaf(t, "link.example.com")).Certificates[0].Leaf
	roots, err := trust.ReadRoots(filepath.Join(dir, "ca.crt"), "the test")
	if err != nil {
		t.Fatal(err)
	}
	if err := roots.Verify([]*x509.Certificate{leaf}, "link.example.com", time.Now()); err != nil {
		t.Errorf("with the authority: %v", err)
	}
	if err := trust.VerifyWithSystem([]*x509.Certificate{leaf}, "link.example.com", time.Now()); err == nil {
		t.Error("the system trusts the authority of a test")
	}
	if trust.VerifyWithSystem(nil, "link.example.com", time.Now()) == nil {
		t.Error("no certificate is trusted")
	}
	for _, name := range []string{"none.crt", "wrong.crt"} {
		if _, err := trust.ReadRoots(filepath.Join(dir, name), "the test"); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
