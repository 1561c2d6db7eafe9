package preview_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
	links := make(chan string, 1)
	pair, address := embeds(s, at, links)
	var keys []string
	for _, file := range []string{filepath.Join(s.Dir, "tls.crt"), filepath.Join(s.Dir, "previews", "tls.crt")} {
		text, err := os.ReadFile(file)
		s.Must(err)
		keys = append(keys, keyOf(s, text))
	}
	b, err := chromium.Start(s.Context(), chromium.Config{
		Hosts: map[string]string{preview.Page: s.Address("api"), "*." + preview.Domain: address, portal: address},
		Keys:  append(keys, keyOf(s, pair.Cert)),
	})
	s.Must(err)
	s.Cleanup(func() { _ = b.Close() })

	s.Must(b.Open("https://" + portal + "/"))
	jo := newBrowser(s)
	jo.open(page + "/login/device").login()
	jo.open(<-links).want(http.StatusOK, "Compare the code").submit("/login/device", "decision", "accept").want(http.StatusOK, "Accepted")
	shown := func() error {
		var got []string
		if err := b.Evaluate("window.got", &got); err != nil || !slices.Equal(got, []string{at}) {
			return fmt.Errorf("the frame has shown %q, %w", got, err)
		}
		return nil
	}
	s.Eventually("the preview in the frame", shown)
	select {
	case <-links: // the frame has loaded itself again
	default:
	}
	s.Must(b.Open("https://" + portal + "/again"))
	s.Eventually("the preview in the frame, with a session", shown)
	select {
	case link := <-links:
		t.Errorf("a login was begun again: %s", link)
	default:
	}
	// The session is of this portal only: in a window of its own the browser has none.
	s.Must(b.Open(at))
	var title string
	s.Must(b.Evaluate("document.title", &title))
	if title != "Log in to a preview - Switchyard" {
		t.Errorf("in a window: %q", title)
	}
}

var link = regexp.MustCompile(`href="(` + page + `/login/preview[?]frame=[^"]+)"`)

// embeds starts a site of other people with a page that embeds a URL, and returns its certificate and its address. It
// also passes requests on to previews, and sends links of codes that a frame shows.
func embeds(s *preview.Site, at string, links chan<- string) (selfsigned.Pair, string) {
	s.Helper()
	pair, err := selfsigned.New(portal, net.IPv4(127, 0, 0, 1))
	s.Must(err)
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	s.Must(err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	s.Must(err)
	previews := &httputil.ReverseProxy{
		Transport: s.Client(true).Transport, Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "https", r.In.Host },
		ModifyResponse: func(a *http.Response) error {
			text, err := io.ReadAll(a.Body)
			a.Body = io.NopCloser(bytes.NewReader(text))
			if found := link.FindSubmatch(text); found != nil {
				select {
				case links <- html.UnescapeString(string(found[1])):
				default: // there is one already
				}
			}
			return err
		},
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Host, preview.Domain) {
			previews.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>Portal</title><script>window.got = []; addEventListener("message", m => got.push(m.data))</script><iframe src=%q></iframe>`, at)
	})}
	go func() { _ = server.Serve(l) }() // until the end of the test
	s.Cleanup(func() { _ = server.Close() })
	return pair, l.Addr().String()
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
