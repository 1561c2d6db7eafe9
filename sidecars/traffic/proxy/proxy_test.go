package proxy_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/sidecars/traffic/parse"
	"switchyard.dev/sidecars/traffic/proxy"
	"switchyard.dev/tests/port"
	"switchyard.dev/tools/wait"
)

// counted counts exchanges by how they ended.
type counted struct {
	mu     sync.Mutex
	ended  map[string]int
	bodies [2]int
	broken []string
}

func (c *counted) Seen() parse.Seen                { return c }
func (c *counted) Begin(parse.Head) parse.Exchange { return exchange{c} }
func (c *counted) Unreadable(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = append(c.broken, reason)
}

type exchange struct{ *counted }

func (exchange) Respond(parse.Head)                 {}
func (exchange) Message(parse.Side)                 {}
func (exchange) Trailers(parse.Side, []parse.Field) {}
func (x exchange) Body(s parse.Side, b []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.bodies[s] += len(b)
}

func (x exchange) End(problem string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended[problem]++
}

// before starts a proxy before a port of this machine.
func before(t *testing.T, app net.Listener) (*proxy.Proxy, *counted, string) {
	t.Helper()
	c := &counted{ended: map[string]int{}}
	p := &proxy.Proxy{Observer: func(int32) parse.Observer { return c }, Logger: slog.New(slog.DiscardHandler)}
	t.Cleanup(p.Close)
	listening := port.Of(t)
	if err := p.Listen(proxy.Port{Application: int32(app.Addr().(*net.TCPAddr).Port), Listening: int32(listening)}); err != nil {
		t.Fatal(err)
	}
	return p, c, fmt.Sprintf("127.0.0.1:%d", listening)
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (c *counted) await(t *testing.T, problem string, n int) {
	t.Helper()
	wait.Eventually(t, time.Minute, fmt.Sprintf("%d exchanges end with %q", n, problem), func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ended[problem] != n || len(c.broken) > 0 {
			return fmt.Errorf("%v, %v", c.ended, c.broken)
		}
		return nil
	})
}

// echo answers with the body of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", "Sum")
	b, err := io.ReadAll(r.Body)
	w.Header().Set("Sum", fmt.Sprint(len(b), err))
	_, _ = w.Write(b)
}

// Requests with bodies over HTTP/1.1 and HTTP/2 arrive whole, many at once, and each is one exchange.
func TestRequestsOfBothProtocols(t *testing.T) {
	for _, two := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %v", two), func(t *testing.T) {
			l := listen(t)
			s := &http.Server{Handler: http.HandlerFunc(echo), Protocols: new(http.Protocols)}
			s.Protocols.SetHTTP1(true)
			s.Protocols.SetUnencryptedHTTP2(true)
			go func() { _ = s.Serve(l) }()
			_, c, address := before(t, l)
			client := &http.Transport{Protocols: new(http.Protocols)}
			client.Protocols.SetHTTP1(!two)
			client.Protocols.SetUnencryptedHTTP2(two)
			var all sync.WaitGroup
			var failed atomic.Int32
			const each, clients, large = 20, 10, 300_000
			for i := range clients {
				all.Go(func() {
					for j := range each {
						body := bytes.Repeat([]byte{byte(i)}, j*large/each)
						q, _ := http.NewRequest(http.MethodPost, "http://"+address, bytes.NewReader(body))
						a, err := client.RoundTrip(q)
						if err != nil {
							t.Error(err)
							failed.Add(1)
							return
						}
						got, err := io.ReadAll(a.Body)
						if err != nil || !bytes.Equal(got, body) || a.Trailer.Get("Sum") != fmt.Sprint(len(body), nil) {
							t.Errorf("%d bytes of %d, %v", len(got), len(body), err)
						}
						_ = a.Body.Close()
					}
				})
			}
			all.Wait()
			client.CloseIdleConnections()
			c.await(t, "", each*clients)
			if want := clients * large * (each - 1) / 2; c.bodies != [2]int{want, want} {
				t.Errorf("bodies of %v bytes, want %d", c.bodies, want)
			}
		})
	}
}

// The ends of connections pass as they come.
func TestEnds(t *testing.T) {
	const request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	for name, c := range map[string]struct {
		app, client func(*net.TCPConn)
		problem     string
		reset       bool
		text        string
	}{
		"the client closes its half": {
			app:    func(a *net.TCPConn) { _, _ = io.ReadAll(a); _, _ = io.WriteString(a, "HTTP/1.1 200 OK\r\n\r\nlate") },
			client: func(c *net.TCPConn) { _, _ = io.WriteString(c, request); _ = c.CloseWrite() },
			text:   "HTTP/1.1 200 OK\r\n\r\nlate",
		},
		"the application resets": {
			app:    func(a *net.TCPConn) { _, _ = bufio.NewReader(a).ReadString('\n'); _ = a.SetLinger(0) },
			client: func(c *net.TCPConn) { _, _ = io.WriteString(c, request) },
			reset:  true, problem: "reset by the application",
		},
		"the application closes": {
			app:     func(a *net.TCPConn) { _, _ = a.Read(make([]byte, 1000)) },
			client:  func(c *net.TCPConn) { _, _ = io.WriteString(c, request) },
			problem: "closed by the application",
		},
		"the client resets": {
			app: func(a *net.TCPConn) { _, _ = io.ReadAll(a) },
			client: func(c *net.TCPConn) {
				_, _ = io.WriteString(c, request)
				time.Sleep(10 * time.Millisecond)
				_ = c.SetLinger(0)
				_ = c.Close()
			},
			problem: "reset by the client", reset: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t)
			go func() {
				for {
					a, err := l.Accept()
					if err != nil {
						return
					}
					c.app(a.(*net.TCPConn))
					_ = a.Close()
				}
			}()
			_, counted, address := before(t, l)
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			c.client(conn.(*net.TCPConn))
			got, err := io.ReadAll(conn)
			if string(got) != c.text || (err != nil) != c.reset {
				t.Errorf("read %q, %v", got, err)
			}
			counted.await(t, c.problem, 1)
		})
	}
}

// A protocol that is not HTTP passes, also with a server that speaks first, and an application that does not listen is a
// connection that is reset.
func TestOtherProtocolsPass(t *testing.T) {
	l := listen(t)
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer a.Close()
				_, _ = io.WriteString(a, "220 ready\r\n")
				_, _ = io.Copy(a, a)
			}()
		}
	}()
	p, c, address := before(t, l)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	in := bufio.NewReader(conn)
	if line, err := in.ReadString('\n'); line != "220 ready\r\n" {
		t.Fatal(line, err)
	}
	text := strings.Repeat("\x00binary\n", 100_000)
	go func() {
		_, _ = io.WriteString(conn, text)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	if got, err := io.ReadAll(in); string(got) != text || err != nil {
		t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
	}
	wait.Eventually(t, time.Minute, "one connection is counted", func() error {
		if p.Other() != 1 || len(c.ended) > 0 {
			return errors.New("not yet")
		}
		return nil
	})
	_ = l.Close()
	if conn, err = net.Dial("tcp", address); err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("no application: %v", err)
	}
}

// A port of which the destination changes is served without a break.
func TestAListeningPortGetsAnotherDestination(t *testing.T) {
	answering := func(name string) string {
		l := listen(t)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, name)
				_ = c.Close()
			}
		}()
		return l.Addr().String()
	}
	p := &proxy.Proxy{Observer: func(int32) parse.Observer { return &counted{ended: map[string]int{}} }, Logger: slog.New(slog.DiscardHandler)}
	t.Cleanup(p.Close)
	number := port.Of(t)
	one, other := proxy.Port{Application: 80, Listening: int32(number), To: answering("one")}, proxy.Port{Application: 80, Listening: int32(number), To: answering("other")}
	reaches := func(want string) {
		t.Helper()
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", number))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if got, err := io.ReadAll(c); string(got) != want || err != nil {
			t.Errorf("it answers %q, %v, want %q", got, err, want)
		}
	}
	if err := p.Listen(one); err != nil {
		t.Fatal(err)
	}
	reaches("one")
	if err := p.Listen(other); err != nil {
		t.Fatal(err)
	}
	reaches("other")
	if err := p.Listen(one, other); err == nil || !strings.Contains(err.Error(), "of another destination") {
		t.Errorf("two destinations of one port: %v", err)
	}
	reaches("other")
}

// following waits, in the exchange /second, for what its bytes cause at the two ends.
type following struct {
	exchange
	seen              *atomic.Int32
	arrived, answered chan struct{}
}

func (f following) Seen() parse.Seen {
	f.seen.Add(1)
	return f
}

func (f following) Begin(h parse.Head) parse.Exchange {
	if h.Target != "/second" {
		return f.exchange
	}
	<-f.arrived
	return f
}

func (f following) Respond(parse.Head) { <-f.answered }

// A request is counted before it arrives at the application. Both messages are read after they are passed on.
func TestRequestsAreCountedBeforeTheyArriveAndReadAfterThat(t *testing.T) {
	f := following{exchange{&counted{ended: map[string]int{}}}, new(atomic.Int32), make(chan struct{}), make(chan struct{})}
	arrive, answer := sync.OnceFunc(func() { close(f.arrived) }), sync.OnceFunc(func() { close(f.answered) })
	app := listen(t)
	served := int32(0)
	go func() {
		_ = http.Serve(app, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // for this test
			if served++; f.seen.Load() != served {
				t.Errorf("%d requests are counted when %s arrives", f.seen.Load(), r.URL)
			}
			if r.URL.Path == "/second" {
				arrive()
			}
			echo(w, r)
		}))
	}()
	p := &proxy.Proxy{Observer: func(int32) parse.Observer { return f }, Logger: slog.New(slog.DiscardHandler)}
	t.Cleanup(p.Close)
	t.Cleanup(arrive)
	t.Cleanup(answer)
	listening := port.Of(t)
	if err := p.Listen(proxy.Port{Application: int32(app.Addr().(*net.TCPAddr).Port), Listening: int32(listening)}); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
	for _, path := range []string{"first", "second", "third"} {
		a, err := client.Post(fmt.Sprintf("http://127.0.0.1:%d/%s", listening, path), "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(a.Body); string(text) != "hello" || err != nil {
			t.Fatalf("%s: %q, %v", path, text, err)
		}
		_ = a.Body.Close()
		if path == "second" {
			answer()
		}
	}
	f.await(t, "", 3)
}

// Open connections continue when the proxy stops listening.
func TestListen(t *testing.T) {
	l := listen(t)
	go func() { _ = http.Serve(l, http.HandlerFunc(echo)) }() //nolint:gosec // for this test
	p, c, address := before(t, l)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for i := range 3 {
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"); err != nil {
			t.Fatal(err)
		}
		a, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, a.Body)
		if i > 0 {
			continue
		}
		if err := p.Listen(); err != nil {
			t.Fatal(err)
		}
		if other, err := net.Dial("tcp", address); err == nil {
			_ = other.Close()
			t.Error("it listens yet")
		}
	}
	c.await(t, "", 3)
	if err := p.Listen(proxy.Port{Application: 1, Listening: int32(l.Addr().(*net.TCPAddr).Port)}); err == nil || !strings.Contains(err.Error(), "port 1 of the application") {
		t.Errorf("a port that another program has: %v", err)
	}
}
