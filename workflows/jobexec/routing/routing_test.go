package routing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/gorilla/websocket"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/routing"
)

// curl returns the output of curl through the proxy.
func (w *world) curl(args ...string) string {
	w.Helper()
	text, err := exec.CommandContext(w.Context(), "curl", append([]string{"-sS", "-x", "http://" + w.proxy.Address()}, args...)...).CombinedOutput()
	if err != nil {
		w.Errorf("curl %q: %v: %s", args, err, text)
	}
	return string(text)
}

// A request arrives as it was sent, with the key, by an absolute URL and in tunnels of both versions of HTTP.
func TestRequestsArriveAsSentWithTheKey(t *testing.T) {
	w := newWorld(t)
	for _, way := range [][]string{{"HTTP/1.1"}, {"HTTP/1.1", "-p"}, {"HTTP/2.0", "-p", "--http2-prior-knowledge"}} {
		for header, key := range map[string]string{
			"a: b": "mine", "baggage: a=1,sd-routing-key=own": "own", "tracestate: sd-routing-key=own": "own", "ot-baggage-sd-routing-key: own": "own", "baggage: sd-routing-key=": "mine",
		} {
			e := w.begin()
			got := w.curl(append(way[1:], "--path-as-is", "-H", "X-Forwarded-For: me", "-H", header, "http://"+w.web+"/a%2Fb/../%7e;x?q=a;b&&c=%zz")...)
			want := fmt.Sprintf("%s %s /a%%2Fb/../%%7e;x?q=a;b&&c=%%zz forwarded=\"me\" h2c=\"\" key=%s\n", way[0], w.web, key)
			if c := e.Count(); got != want || c.GetWithKey() != 1 || c.GetWithoutKey() != 0 {
				t.Errorf("%q with %q: %q, want %q; the counts are %v", way, header, got, want, c)
			}
		}
	}
	// An upgrade to HTTP/2 would pass later requests without the key.
	if got := w.curl("--http2", "-p", "http://"+w.web+"/"); !strings.HasPrefix(got, "HTTP/1.1 ") || !strings.Contains(got, `h2c=""`) {
		t.Errorf("with an upgrade: %q", got)
	}
	if got := w.curl("http://127.0.0.1:1/"); !strings.Contains(got, "127.0.0.1:1 cannot be reached") {
		t.Errorf("a server that does not exist: %q", got)
	}
	if got := w.curl("http://" + w.proxy.Address() + "/"); !strings.Contains(got, "this is an HTTP proxy") {
		t.Errorf("the proxy itself: %q", got)
	}
}

// Streams run both ways at once, with trailers, over an absolute URL and in tunnels of HTTP/2.
func TestStreamsAndTrailersPass(t *testing.T) {
	w := newWorld(t)
	w.begin()
	proxy := &url.URL{Scheme: "http", Host: w.proxy.Address()}
	absolute := &http.Transport{Proxy: http.ProxyURL(proxy)}
	tunnel := &http.Transport{Protocols: new(http.Protocols), DialContext: w.dialTunnel}
	tunnel.Protocols.SetUnencryptedHTTP2(true)
	for what, by := range map[string]*http.Transport{"absolute": absolute, "tunnel": tunnel} {
		t.Cleanup(by.CloseIdleConnections)
		body, send := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.web+"/echo", body)
		w.must(err)
		r.Trailer = http.Header{"X-Sum": nil}
		answer, err := by.RoundTrip(r) // it comes before the body
		w.must(err)
		for i := range 3 {
			line := fmt.Sprint("line ", i)
			_, err := io.WriteString(send, line)
			w.must(err)
			got := make([]byte, len(line))
			if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != line {
				t.Fatalf("%s: %q, %v", what, got, err)
			}
		}
		r.Trailer.Set("X-Sum", "sum")
		w.must(send.Close())
		if rest, err := io.ReadAll(answer.Body); err != nil || len(rest) > 0 || answer.Trailer.Get("X-End") != "sum" {
			t.Errorf("%s: it ends with %q, %v and the trailers %v", what, rest, err, answer.Trailer)
		}
		w.must(answer.Body.Close())
		r, err = http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.web+"/cut", nil)
		w.must(err)
		if answer, err = by.RoundTrip(r); err == nil {
			if text, err := io.ReadAll(answer.Body); err == nil {
				t.Errorf("%s: half of a response counts as a whole: %q", what, text)
			}
			_ = answer.Body.Close()
		}
	}
	for _, key := range w.seen() {
		if key != "mine" {
			t.Errorf("a request has the key %q", key)
		}
	}
}

func TestWebSocketsPass(t *testing.T) {
	w := newWorld(t)
	e := w.begin()
	dialer := websocket.Dialer{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: w.proxy.Address()})}
	c, answer, err := dialer.Dial("ws://"+w.web+"/socket", nil)
	w.must(err)
	_ = answer.Body.Close()
	for range 3 {
		w.must(c.WriteMessage(websocket.BinaryMessage, []byte("\x00text")))
		if kind, text, err := c.ReadMessage(); err != nil || kind != websocket.BinaryMessage || string(text) != "mine \x00text" {
			t.Fatalf("%d %q %v", kind, text, err)
		}
	}
	w.must(c.Close())
	if n := e.Count(); n.GetWithKey() != 1 || n.GetWithoutKey() != 0 {
		t.Errorf("the counts are %v", n)
	}
}

// Other protocols than HTTP are copied: TLS, and those in which the server speaks first; their ends and errors too.
func TestOtherBytesAreCopied(t *testing.T) {
	w := newWorld(t)
	e := w.begin()
	if got := w.curl("-k", "--http1.1", "https://"+w.secure+"/x"); !strings.HasPrefix(got, "HTTP/1.1 "+w.secure+" /x ") || !strings.HasSuffix(got, " key=\n") {
		t.Errorf("over TLS: %q", got)
	}
	for i, text := range []string{"", "E", "EHLO x\r\n", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x00\xff", strings.Repeat("GET", 3000), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"} {
		c, from := w.tunnel(w.plain)
		greeting := make([]byte, 2)
		if _, err := io.ReadFull(from, greeting); err != nil || string(greeting) != "hi" {
			t.Fatalf("%q, %v", greeting, err)
		}
		_, err := io.WriteString(c, text)
		w.must(err)
		w.must(c.CloseWrite())
		if got, err := io.ReadAll(from); err != nil || string(got) != text {
			t.Errorf("%q arrives as %q, %v", text, got, err)
		}
		if n := e.Count(); n.GetWithKey() != 0 || n.GetWithoutKey() != uint64(i+2) {
			t.Errorf("%q: the counts are %v", text, n)
		}
	}
	// A reset arrives as one.
	l := w.listen()
	c, from := w.tunnel(l.Addr().String())
	server, err := l.Accept()
	w.must(err)
	_, err = c.Write([]byte{0})
	w.must(err)
	_, err = io.ReadFull(server, make([]byte, 1))
	w.must(err)
	w.must(server.(*net.TCPConn).SetLinger(0))
	w.must(server.Close())
	if _, err := from.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a reset arrives as %v", err)
	}
}

// dialTunnel dials through a tunnel.
func (w *world) dialTunnel(_ context.Context, _, address string) (net.Conn, error) {
	c, from := w.tunnel(address)
	if from.Buffered() > 0 {
		return nil, errors.New("the server speaks first")
	}
	return c, nil
}

// Only requests of the execution that runs are forwarded.
func TestNoJobNoProxy(t *testing.T) {
	w := newWorld(t)
	refused := func(what string) {
		t.Helper()
		if got := w.curl("-w", "%{http_code}", "http://"+w.web+"/"); !strings.HasSuffix(got, "503") {
			t.Errorf("%s: %q", what, got)
		}
	}
	refused("before")
	e := w.begin()
	c, from := w.tunnel(w.web)
	ask := func() *http.Response {
		t.Helper()
		_, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", w.web)
		w.must(err)
		answer, err := http.ReadResponse(from, nil)
		w.must(err)
		_, err = io.Copy(io.Discard, answer.Body)
		w.must(err)
		return answer
	}
	if answer := ask(); answer.StatusCode != http.StatusOK {
		t.Error(answer.Status)
	}
	next := w.begin()
	w.proxy.End(e) // it was replaced already
	if answer := ask(); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("in a tunnel of another job: %s", answer.Status)
	}
	w.curl("http://" + w.web + "/")
	if a, b := e.Count(), next.Count(); a.GetWithKey() != 1 || b.GetWithKey() != 1 {
		t.Errorf("the counts are %v and %v", a, b)
	}
	w.proxy.End(next)
	refused("after")
	if none := w.proxy.Begin(&jobexecv1.RunRequest{}, nil, false); none != nil || none.Count() != nil {
		t.Error("an execution without trafficManager uses the proxy")
	}
	refused("without trafficManager")
}

func TestCaveats(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		container []string
		env       map[string]string
		restarted bool
		want      []string
	}{
		{nil, nil, false, nil},
		{[]string{"localhost,127.0.0.1,.example.net", "192.0.2.0/24"}, map[string]string{"A": "b", "no_proxy": "other"}, false, nil},
		{[]string{".svc"}, nil, false, []string{"no_proxy", "name.namespace.svc"}},
		{[]string{"", "*"}, nil, false, []string{"no_proxy", "name.namespace"}},
		{[]string{"10.0.0.0/8"}, nil, false, []string{"no_proxy", "10.96.0.1"}},
		{nil, map[string]string{"NO_PROXY": "a,.cluster.local"}, false, []string{"no_proxy", ".cluster.local"}},
		{nil, map[string]string{"HTTP_PROXY": "http://proxy.example.net"}, false, []string{"HTTP_PROXY", "remove it"}},
		{[]string{".svc"}, nil, true, []string{"no_proxy", ". Container job-executor-proxy was restarted"}},
		{nil, nil, true, []string{"Container job-executor-proxy was restarted"}},
	} {
		r := &jobexecv1.RunRequest{Routing: &jobexecv1.RoutingContext{TrafficManager: true}}
		for name, value := range c.env {
			r.Env = append(r.Env, &jobexecv1.Variable{Name: name, Value: value})
		}
		got := w.proxy.Begin(r, c.container, c.restarted).Count().GetCaveat()
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%v: %q has no %q", c, got, part)
			}
		}
		if (got == "") != (c.want == nil) {
			t.Errorf("%v: %q", c, got)
		}
	}
	if _, err := routing.New(routing.Config{Address: ":0"}); err == nil || !bytes.Contains([]byte(err.Error()), []byte("127.0.0.1")) {
		t.Errorf("the proxy listens on all addresses: %v", err)
	}
}
