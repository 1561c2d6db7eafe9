package certificates_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane"
	"switchyard.dev/eventbus/trust/trusttest"
	"switchyard.dev/tools/wait"
)

// A control plane with the flags that its chart sets orders a certificate, and serves previews with it.
func TestControlPlane(t *testing.T) {
	w := newWorld(t)
	keys := "first " + base64.StdEncoding.EncodeToString(make([]byte, 32))
	trusttest.File(t, w.dir, "keys", []byte(keys))
	t.Setenv("CONTROLPLANE_SOCKET", filepath.Join(w.dir, "admin.sock"))
	var s controlplane.Settings
	flags := flag.NewFlagSet("controlplane", flag.ContinueOnError)
	s.Flags(flags)
	args := []string{
		"--tls-name=127.0.0.1", "--tls-dir=" + w.dir, "--keys-file=" + filepath.Join(w.dir, "keys"), "--database=" + filepath.Join(w.dir, "controlplane.db"),
		"--url=https://control.example.com", "--preview-domain=default=preview.example.net",
		fmt.Sprintf("--acme-directory=https://127.0.0.1:%d/dir", w.acme), "--acme-accept-terms=true", "--acme-email=ops@example.net",
		"--acme-ca-file=" + w.ca, "--acme-rfc2136=" + filepath.Join(w.dir, "rfc2136.yaml"),
	}
	for _, listener := range []string{"api", "agents", "proxy", "metrics", "previews"} {
		args = append(args, fmt.Sprintf("--%s-address=127.0.0.1:0", listener))
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	c, err := s.Read(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		t.Fatal(err)
	}
	main, err := controlplane.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- main.Run(ctx) }()
	defer func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	client := &tls.Config{ServerName: "web--a.preview.example.net", RootCAs: roots(t, w.root), MinVersion: tls.VersionTLS13}
	wait.Eventually(t, 5*time.Minute, "a certificate", func() error {
		conn, err := tls.Dial("tcp", main.Listeners["previews"].Addr().String(), client)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}
