package proxy_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/workstation/loopback"
)

// way serves a listener of the workstation for connections into the cluster, and returns its
// address.
func (s *site) way(t *testing.T, serve func(context.Context, net.Listener) error) string {
	t.Helper()
	l, err := loopback.Listen("localhost:0")
	s.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("a way into the cluster ended with %v", err)
		}
	})
	return l.Addr().String()
}

// page is a web server in the cluster: pages that contain the protocol of the request, a slow
// one, one that counts the bytes it receives, and a WebSocket that echoes.
type page struct {
	*httptest.Server
	connections atomic.Int32
}

// newPage starts one at an address that tunnels may reach, with TLS and HTTP/2 or with neither.
func (s *site) newPage(t *testing.T, secure bool) *page {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s %s %s", r.Proto, r.Host, r.URL.Path) })
	mux.HandleFunc("/sent", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%d %v", n, err)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 4<<20)) })
	mux.HandleFunc("/socket", func(w http.ResponseWriter, r *http.Request) {
		c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			kind, text, err := c.ReadMessage()
			if err != nil || c.WriteMessage(kind, append([]byte("cluster: "), text...)) != nil {
				return
			}
		}
	})
	l, err := net.Listen("tcp", net.JoinHostPort(s.backend.String(), "0"))
	s.Must(err)
	p := &page{Server: httptest.NewUnstartedServer(mux)}
	_ = p.Listener.Close()
	p.Listener, p.EnableHTTP2 = l, secure
	p.Config.ConnState = func(_ net.Conn, now http.ConnState) {
		if now == http.StateNew {
			p.connections.Add(1)
		}
	}
	if secure {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(p.Close)
	return p
}

// at returns a URL of a page by a name of the cluster.
func (p *page) at(scheme, path string) string {
	return fmt.Sprintf("%s://web.shop:%d%s", scheme, p.Listener.Addr().(*net.TCPAddr).Port, path)
}

// opened returns how many connections were opened, once no more are.
func (p *page) opened(t *testing.T) (n int32) {
	t.Helper()
	wait.Eventually(t, world.Patience, "no more connections are opened", func() error {
		before := n
		time.Sleep(100 * time.Millisecond)
		if n = p.connections.Load(); n != before {
			return fmt.Errorf("%d after %d", n, before)
		}
		return nil
	})
	return n
}

// get returns the content of a page.
func get(c *http.Client, url string) (string, error) {
	r, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return string(text), err
}

// TestABrowserThroughTheHTTPProxy is what browsers do with a proxy: whole URLs for http, CONNECT
// for https (in which HTTP/2 is spoken) and for WebSockets; many requests at once over
// connections that last.
func TestABrowserThroughTheHTTPProxy(t *testing.T) {
	s := newSite(t)
	s.lists("ada")
	s.names.known = map[string][]string{"web.shop": {s.backend.String()}, "meta.shop": {"169.254.169.254"}}
	plain, secure := s.newPage(t, false), s.newPage(t, true)
	w := s.workstation(t, "ada")
	proxy := &url.URL{Scheme: "http", Host: s.way(t, func(ctx context.Context, l net.Listener) error {
		return loopback.ServeProxy(ctx, l, loopback.Web{Open: w.Open})
	})}
	trusts := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // a test: its certificate is for another name
	browser := &http.Client{Timeout: world.Patience, Transport: &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: trusts, ForceAttemptHTTP2: true, MaxConnsPerHost: 6}}

	const requests, alone = 100, 50
	for _, c := range []struct {
		what, proto, scheme string
		to                  *page
	}{{"http", "HTTP/1.1", "http", plain}, {"https", "HTTP/2.0", "https", secure}} {
		reads := func(i int) {
			path := fmt.Sprintf("/page/%d", i)
			if text, err := get(browser, c.to.at(c.scheme, path)); err != nil || text != fmt.Sprintf("%s web.shop:%d %s", c.proto, c.to.Listener.Addr().(*net.TCPAddr).Port, path) {
				t.Errorf("%s: page %d is %q, %v", c.what, i, text, err)
			}
		}
		var all sync.WaitGroup
		for i := range requests {
			all.Go(func() { reads(i) })
		}
		all.Wait()
		// While connections are opened, net/http opens one for each request that waits, even where
		// a connection that has become idle serves it. So kept ones show in requests one after the other.
		opened := c.to.opened(t)
		for i := range alone {
			reads(i)
		}
		if n := c.to.connections.Load() - opened; n > alone/10 {
			t.Errorf("%s: %d requests one after the other took %d connections, so they are not kept", c.what, alone, n)
		}
		if text, err := get(browser, c.to.at(c.scheme, "/large")); err != nil || len(text) != 4<<20 {
			t.Errorf("%s: a large page has %d bytes, %v", c.what, len(text), err)
		}
		r, err := browser.Post(c.to.at(c.scheme, "/sent"), "application/octet-stream", bytes.NewReader(make([]byte, 4<<20)))
		s.Must(err)
		if text, err := io.ReadAll(r.Body); err != nil || string(text) != fmt.Sprintf("%d <nil>", 4<<20) {
			t.Errorf("%s: the server received %q, %v", c.what, text, err)
		}
		_ = r.Body.Close()
	}
	for scheme, p := range map[string]*page{"ws": plain, "wss": secure} {
		c, _, err := (&websocket.Dialer{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}).Dial(p.at(scheme, "/socket"), nil)
		s.Must(err)
		talks(t, scheme, c)
	}
	// Some clients send the upgrade as a request with a whole URL.
	c, _, err := (&websocket.Dialer{NetDial: func(string, string) (net.Conn, error) {
		conn, err := net.Dial("tcp", proxy.Host)
		return wholeURL{conn, plain.at("http", "")}, err
	}}).Dial(plain.at("ws", "/socket"), nil)
	s.Must(err)
	talks(t, "an upgrade by its whole URL", c)

	if r, err := browser.Get("http://meta.shop/latest/meta-data"); err != nil || r.StatusCode != http.StatusForbidden {
		t.Errorf("the metadata service: %v, %v", r, err)
	}
	if _, err := browser.Get("https://meta.shop/"); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("the metadata service, with TLS: %v", err)
	}
}

// wholeURL writes a request's first line with the whole URL.
type wholeURL struct {
	net.Conn
	origin string
}

// Write implements net.Conn. A client writes the head of its request at once.
func (w wholeURL) Write(p []byte) (int, error) {
	if !bytes.HasPrefix(p, []byte("GET /")) {
		return w.Conn.Write(p)
	}
	_, err := w.Conn.Write(slices.Concat([]byte("GET "+w.origin), p[len("GET "):]))
	return len(p), err
}

// talks sends a WebSocket messages repeatedly, and closes it.
func talks(t *testing.T, what string, c *websocket.Conn) {
	t.Helper()
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(world.Patience))
	for i := range 20 {
		says := strings.Repeat(fmt.Sprint(i), 1000)
		if err := c.WriteMessage(websocket.TextMessage, []byte(says)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, text, err := c.ReadMessage(); err != nil || string(text) != "cluster: "+says {
			t.Fatalf("%s: message %d is answered %.50q, %v", what, i, text, err)
		}
	}
}

// TestCurlThroughTheHTTPProxy is the same with curl.
func TestCurlThroughTheHTTPProxy(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("there is no curl: apt-get install -y curl")
	}
	s := newSite(t)
	s.lists("ada")
	s.names.known = map[string][]string{"web.shop": {s.backend.String()}}
	plain, secure := s.newPage(t, false), s.newPage(t, true)
	w := s.workstation(t, "ada")
	proxy := s.way(t, func(ctx context.Context, l net.Listener) error {
		return loopback.ServeProxy(ctx, l, loopback.Web{Open: w.Open})
	})
	curl := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "curl", append([]string{"-sSk", "--max-time", "30", "--noproxy", "", "--proxy", "http://" + proxy}, args...)...).CombinedOutput()
		return fmt.Sprintf("%s %v", bytes.TrimSpace(out), err)
	}
	for _, c := range []struct{ what, got, want string }{
		{"a whole URL", curl(plain.at("http", "/a")), "HTTP/1.1 web.shop"},
		{"CONNECT", curl("--proxytunnel", plain.at("http", "/a")), "HTTP/1.1 web.shop"},
		{"HTTP/2 in CONNECT", curl("--http2", secure.at("https", "/a")), "HTTP/2.0 web.shop"},
		{"HTTP/1.1 in CONNECT", curl("--http1.1", secure.at("https", "/a")), "HTTP/1.1 web.shop"},
		{"two over one connection", curl("-w", "%{num_connects} ", "-o", "/dev/null", plain.at("http", "/a"), "-o", "/dev/null", plain.at("http", "/b")), "1 0"},
		{"a name that is not there", curl("http://nothing.shop/"), "nothing.shop is not reached through the tunnel"},
		{"a name that is not there, with TLS", curl("https://nothing.shop/"), "502"},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("%s: %s", c.what, c.got)
		}
	}
}
