package dialer_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tests/background"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/tunnels/dialer"
)

var certificate tls.Certificate

// TestMain makes the certificate of an HTTPS proxy one of the system's authorities.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "dialer")
	if err != nil {
		panic(err)
	}
	pair, err := selfsigned.New("localhost", net.IPv4(127, 0, 0, 1))
	if err != nil {
		panic(err)
	}
	if certificate, err = tls.X509KeyPair(pair.Cert, pair.Key); err != nil {
		panic(err)
	}
	roots := filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(roots, pair.Cert, 0o600); err != nil {
		panic(err)
	}
	_ = os.Setenv("SSL_CERT_FILE", roots)
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// greeter is a server that speaks first: its text may arrive with the proxy's answer.
func greeter(t *testing.T) (address string) {
	t.Helper()
	return background.Listen(t, func(c net.Conn) { _, _ = io.WriteString(c, "welcome") })
}

// connects is a proxy that wants a user.
func connects(t *testing.T, secure bool) *url.URL {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, _, _ := strings.Cut(r.Header.Get("Proxy-Authorization"), " "); r.Method != http.MethodConnect || user != "Basic" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		first := make([]byte, 7)
		_, _ = io.ReadFull(to, first)
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nVia: x\r\n\r\n"+string(first))
		_, _ = io.Copy(c, to)
		_ = c.Close()
	}))
	if secure {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestAProxyIsUsed(t *testing.T) {
	to := greeter(t)
	for _, secure := range []bool{false, true} {
		by := connects(t, secure)
		by.User = url.UserPassword("jo", "s3cret")
		through := func(string) (*url.URL, error) { return by, nil }
		c, err := dialer.Through(t.Context(), through, to)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); err != nil || string(got) != "welcome" {
			t.Errorf("%s: read %q, %v", by.Scheme, got, err)
		}
		_ = c.Close()
		by.User = nil
		if _, err := dialer.Through(t.Context(), through, to); err == nil || !strings.Contains(err.Error(), "407") {
			t.Errorf("%s: without a user: %v", by.Scheme, err)
		}
	}
}

// TestTheEnvironmentNamesTheProxy also shows that no error has the password of the proxy's URL.
func TestTheEnvironmentNamesTheProxy(t *testing.T) {
	to := greeter(t)
	by := connects(t, false)
	t.Setenv("HTTPS_PROXY", fmt.Sprintf("http://jo:s3cret@%s", by.Host))
	t.Setenv("NO_PROXY", "inside.example")
	proxy := dialer.FromEnvironment()
	if u, err := proxy("link.example:443"); err != nil || u.Host != by.Host {
		t.Errorf("for another host: %v, %v", u, err)
	}
	if u, err := proxy("a.inside.example:443"); err != nil || u != nil {
		t.Errorf("for a host inside: %v, %v", u, err)
	}
	if c, err := dialer.Through(t.Context(), proxy, to); err != nil { // loopback addresses need none
		t.Error(err)
	} else {
		_ = c.Close()
	}
	for _, wrong := range []string{"http://jo:s3cret@127.0.0.1:1", "socks9://jo:s3cret@127.0.0.1:1", "http://jo:s3cret@%zz"} {
		t.Setenv("HTTPS_PROXY", wrong)
		_, err := dialer.Through(t.Context(), dialer.FromEnvironment(), "link.example:443")
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// TestAProxyThatIsNoURLIsNotBypassed connects to no server, although one listens.
func TestAProxyThatIsNoURLIsNotBypassed(t *testing.T) {
	to := greeter(t)
	t.Setenv("NO_PROXY", "")
	t.Setenv("HTTPS_PROXY", "http://jo:s3cret@%zz")
	_, err := dialer.Through(t.Context(), dialer.FromEnvironment(), to)
	if err == nil || !strings.Contains(err.Error(), "HTTPS_PROXY is not a URL") || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
}

// TestASilentProxyIsGivenUp ends the attempt with its context.
func TestASilentProxyIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = dialer.Through(ctx, func(string) (*url.URL, error) { return &url.URL{Scheme: "http", Host: l.Addr().String()}, nil }, "link.example:443")
	if err == nil || !strings.Contains(err.Error(), dialer.ErrSilent.Error()) {
		t.Error(err)
	}
}
