package preview_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"switchyard.dev/controlplane-link/controlplane"
	chromium "switchyard.dev/tests/browser"
	"switchyard.dev/tests/preview"
	"switchyard.dev/tests/selfsigned"
)

const portal = "portal.example.org"

// TestFrameInChromium: a browser that keeps the cookies of frames apart logs an embedded preview in by a code, and then
// shows it again without one.
func TestFrameInChromium(t *testing.T) {
	if err := chromium.Installed(); err != nil {
		t.Skip(err)
	}
	s := withIssuer(t, func(c *controlplane.Config) { c.Previews.Embedded = true })
	s.Sandbox("framed", map[string]string{"web": "http://" + service(s, "web", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><script>parent.postMessage(location.href, "*")</script>`)
	})})
	at := preview.URL("web", "framed") + "/a?b=c"
	pair, address := embeds(s, at)
	var keys []string
	for _, file := range []string{filepath.Join(s.Dir, "tls.crt"), filepath.Join(s.Dir, "previews", "tls.crt")} {
		text, err := os.ReadFile(file)
		s.Must(err)
		keys = append(keys, keyOf(s, text))
	}
	b, err := chromium.Start(s.Context(), chromium.Config{
		Hosts: map[string]string{preview.Page: s.Address("api"), "*." + preview.Domain: s.Address("previews"), portal: address},
		Keys:  append(keys, keyOf(s, pair.Cert)),
	})
	s.Must(err)
	s.Cleanup(func() { _ = b.Close() })

	s.Must(b.Open("https://" + portal + "/"))
	jo := newBrowser(s)
	jo.open(page + "/login/device").login()
	begun := codes(s)
	jo.open(page+"/login/device?user_code="+begun[0]).want(http.StatusOK, "Compare the code").submit("/login/device", "decision", "accept").want(http.StatusOK, "Accepted")
	shown := func() error {
		var got []string
		if err := b.Evaluate("window.got", &got); err != nil || !slices.Equal(got, []string{at}) {
			return fmt.Errorf("the frame has shown %q, %w", got, err)
		}
		return nil
	}
	s.Eventually("the preview in the frame", shown)
	s.Must(b.Open("https://" + portal + "/again"))
	s.Eventually("the preview in the frame, with a session", shown)
	if all := codes(s); !slices.Equal(all, begun) {
		t.Errorf("logins that were begun: %q, then %q", begun, all)
	}
	// The session is of this portal only: in a window of its own the browser has none.
	s.Must(b.Open(at))
	var title string
	s.Must(b.Evaluate("document.title", &title))
	if title != "Log in to a preview - Switchyard" {
		t.Errorf("in a window: %q", title)
	}
}

// embeds starts a site of other people with a page that embeds a URL, and returns its certificate and its address.
func embeds(s *preview.Site, at string) (selfsigned.Pair, string) {
	s.Helper()
	pair, err := selfsigned.New(portal, net.IPv4(127, 0, 0, 1))
	s.Must(err)
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	s.Must(err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	s.Must(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>Portal</title><script>window.got = []; addEventListener("message", m => got.push(m.data))</script><iframe src=%q></iframe>`, at)
	})}
	go func() { _ = server.Serve(l) }() // until the end of the test
	s.Cleanup(func() { _ = server.Close() })
	return pair, l.Addr().String()
}

// codes are those of the logins that are pending; it waits for the first one, unless a login has finished.
func codes(s *preview.Site) (all []string) {
	s.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.Dir, "store.db")+"?mode=ro")
	s.Must(err)
	defer db.Close()
	s.Eventually("the code of a login", func() error {
		var sessions int
		if err := db.QueryRowContext(s.Context(), "SELECT count(*) FROM logins").Scan(&sessions); err != nil {
			return err
		}
		rows, err := db.QueryContext(s.Context(), "SELECT user_code FROM device_logins")
		if err != nil {
			return err
		}
		defer rows.Close()
		all = nil
		for rows.Next() {
			var code string
			if err := rows.Scan(&code); err != nil {
				return err
			}
			all = append(all, code)
		}
		if len(all) == 0 && sessions < 2 {
			return errors.New("there is none")
		}
		return rows.Err()
	})
	return all
}

// keyOf returns the key of a certificate, as in browser.Config.
func keyOf(s *preview.Site, text []byte) string {
	s.Helper()
	block, _ := pem.Decode(text)
	c, err := x509.ParseCertificate(block.Bytes)
	s.Must(err)
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:])
}
