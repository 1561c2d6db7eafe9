package connect_test

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"

	_ "switchyard.dev/eventbus/connect"
)

// In an image there are no files with authorities, and a bus with a certificate of a public
// one is believed all the same.
func TestPublicAuthoritiesAreKnownWithoutFiles(t *testing.T) {
	if os.Getenv("IN_AN_IMAGE") != "" {
		pool, err := x509.SystemCertPool()
		if err != nil || pool.Equal(x509.NewCertPool()) {
			t.Fatalf("no authority is known: %v", err)
		}
		return
	}
	again := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	again.Env = append(os.Environ(), "IN_AN_IMAGE=yes", "SSL_CERT_FILE=/dev/null", "SSL_CERT_DIR=/nowhere")
	if out, err := again.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
