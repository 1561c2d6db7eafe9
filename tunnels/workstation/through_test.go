package workstation

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tests/background"
)

// connectProxy is an HTTP proxy that connects clients with a key to one address. The server there
// may send first.
func connectProxy(t *testing.T, to string) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodConnect:
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		case r.Header.Get("Signadot-Api-Key") != "key" || r.Header.Get("Signadot-Cluster") != "mine":
			http.Error(w, "unknown key", http.StatusForbidden)
			return
		case r.Host != "tunnel-proxy.signadot.svc:7777":
			http.Error(w, "no such host", http.StatusBadGateway)
			return
		}
		there, err := net.Dial("tcp", to)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer there.Close()
		here, both, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer here.Close()
		// The first bytes of the target arrive in one piece with the proxy's answer.
		first := make([]byte, len("hello\n"))
		if _, err := io.ReadFull(there, first); err != nil {
			t.Error(err)
			return
		}
		_, _ = both.WriteString("HTTP/1.1 200 OK\r\n\r\n" + string(first))
		_ = both.Flush()
		go func() { _, _ = io.Copy(there, both) }()
		_, _ = io.Copy(here, there)
	}))
	t.Cleanup(s.Close)
	return s
}

// greeting is a server that greets, and then repeats a line.
func greeting(t *testing.T) string {
	t.Helper()
	return background.Listen(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "hello\n")
		line, _ := bufio.NewReader(c).ReadString('\n')
		_, _ = io.WriteString(c, line)
	})
}

func through(t *testing.T, s *httptest.Server) Through {
	t.Helper()
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return Through{Proxy: at, Target: "tunnel-proxy.signadot.svc:7777", TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		Header: http.Header{"Signadot-Api-Key": {"key"}, "Signadot-Cluster": {"mine"}}}
}

func TestThroughAControlPlanesProxyNothingIsLost(t *testing.T) {
	c, err := through(t, connectProxy(t, greeting(t))).Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "and back\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "hello\nand back\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAProxyThatCannotConnectReturnsTheCause(t *testing.T) {
	s := connectProxy(t, greeting(t))
	wrongKey, wrongTarget, plain, untrusted := through(t, s), through(t, s), through(t, s), through(t, s)
	wrongKey.Header = http.Header{"Signadot-Api-Key": {"other"}}
	wrongTarget.Target = "elsewhere:7777"
	plain.Proxy = &url.URL{Scheme: "http", Host: "proxy.example.com"}
	untrusted.TLS = nil
	for name, c := range map[string]struct {
		road  Through
		final bool
		says  string
	}{
		"another key":         {wrongKey, true, "does not take your credentials (403 Forbidden: unknown key)"},
		"another target":      {wrongTarget, false, "did not connect to elsewhere:7777 (502 Bad Gateway: no such host)"},
		"in clear":            {plain, true, "give an https URL"},
		"no certificate":      {untrusted, false, "does not show a certificate that is trusted"},
		"a server of TLS":     {Through{Proxy: &url.URL{Scheme: "http", Host: wrongKey.Proxy.Host}, Target: "a:1"}, false, "does not answer as HTTP proxies do"},
		"a closed port":       {Through{Proxy: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, Target: "a:1"}, false, "is not reached (dial tcp 127.0.0.1:1: connect: connection refused): see that its URL is right"},
		"a server of no TLS":  {Through{Proxy: &url.URL{Scheme: "https", Host: greeting(t)}, Target: "a:1"}, false, "speaks no TLS"},
		"no URL of a proxy":   {Through{}, true, "is not the URL of an HTTP proxy"},
		"one of another kind": {Through{Proxy: &url.URL{Scheme: "ftp", User: url.UserPassword("me", "other"), Host: "proxy.example.com"}}, true, "ftp://me:xxxxx@proxy.example.com"},
	} {
		got, err := c.road.Dial(t.Context())
		if err == nil {
			_ = got.Close()
			t.Errorf("%s: connected", name)
			continue
		}
		if final := isFinal(err); !strings.Contains(err.Error(), c.says) || final != c.final {
			t.Errorf("%s: got %q, final %t; want %q, %t", name, err, final, c.says, c.final)
		}
		if strings.Contains(err.Error(), "other") {
			t.Errorf("%s: the key is in %q", name, err)
		}
	}
}

func TestASilentProxyIsNotWaitedForLongerThanAsked(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := (Through{Proxy: &url.URL{Scheme: "http", Host: l.Addr().String()}, Target: "a:1"}).Dial(ctx); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}
