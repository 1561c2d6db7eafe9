package override_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/sidecars/traffic/override"
	"switchyard.dev/sidecars/traffic/parse"
	"switchyard.dev/sidecars/traffic/proxy"
	"switchyard.dev/tests/port"
)

// unobserved is an observer of no exchange.
type unobserved struct{}

func (u unobserved) Seen() parse.Seen              { return u }
func (unobserved) Begin(parse.Head) parse.Exchange { return nil }
func (unobserved) Unreadable(string)               {}

// world is an application with a proxy before it, and an override.
type world struct {
	*testing.T
	app, first net.Listener
	// address is that of the proxy.
	address string

	mu  sync.Mutex
	set override.Settings
	// served are the requests that each has served, in order.
	served []string
}

// newWorld has the application and the override answered by these handlers.
func newWorld(t *testing.T, app, first http.Handler) *world {
	t.Helper()
	w := &world{T: t, app: listen(t), first: listen(t)}
	w.set = override.Settings{Address: w.first.Addr().String(), Keys: []string{"k", "group"}, Stream: time.Minute}
	w.serve(w.app, "app", app)
	w.serve(w.first, "override", first)
	server := override.New(func(int32, string) override.Settings {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.set
	}, slog.New(slog.DiscardHandler))
	t.Cleanup(server.Stop)
	p := &proxy.Proxy{Observer: func(int32) parse.Observer { return unobserved{} }, Logger: slog.New(slog.DiscardHandler),
		Override: func(host string, application int32) (proxy.Conn, error) { return server.Dial(host, application) }}
	t.Cleanup(p.Close)
	listening := port.Of(t)
	if err := p.Listen(proxy.Port{Application: int32(w.app.Addr().(*net.TCPAddr).Port), Listening: int32(listening)}); err != nil {
		t.Fatal(err)
	}
	w.address = fmt.Sprintf("127.0.0.1:%d", listening)
	return w
}

// listen listens on a port that stays free once the listener is closed.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port.Of(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// serve serves HTTP/1.1 and h2c; nil: nothing listens.
func (w *world) serve(l net.Listener, name string, h http.Handler) {
	if h == nil {
		_ = l.Close()
		return
	}
	s := &http.Server{Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute, DisableGeneralOptionsHandler: true, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.served = append(w.served, name+" "+r.URL.Path)
		w.mu.Unlock()
		h.ServeHTTP(rw, r)
	})}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(l) }()
	w.Cleanup(func() { _ = s.Close() })
}

// settle changes the override.
func (w *world) settle(change func(*override.Settings)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.set)
}

// by returns which of both have served requests since the last call.
func (w *world) by() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := strings.Join(w.served, ", ")
	w.served = nil
	return out
}

// client returns a client of HTTP/1.1 or of HTTP/2.
func client(t *testing.T, two bool) *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetHTTP1(!two)
	tr.Protocols.SetUnencryptedHTTP2(two)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// answer is what a caller gets.
type answer struct {
	status          int
	body            string
	header, trailer http.Header
}

// ask sends a request, and returns the whole answer.
func (w *world) ask(c *http.Client, method, target string, body io.Reader, header ...string) answer {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 2*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+w.address+target, body)
	if err != nil {
		w.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	a, err := c.Do(r)
	if err != nil {
		w.Fatalf("%s %s: %v", method, target, err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		w.Fatalf("%s %s: %v", method, target, err)
	}
	return answer{a.StatusCode, string(text), a.Header, a.Trailer}
}
