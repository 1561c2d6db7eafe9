package routing_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os/exec"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/sidecars/redirect"
	"switchyard.dev/sidecars/redirect/spec"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/routing"
	"switchyard.dev/xds/routingkey"
)

// world is a proxy, and servers at an address that is no loopback one, since clients do not use proxies for these.
type world struct {
	testing.TB
	proxy *routing.Proxy
	// pod has the proxy and the clients, if connections are redirected; nil: they are beside the servers.
	pod *podnet.Pod
	// web serves HTTP/1.1 and HTTP/2 without TLS, rpc gRPC, secure HTTPS; plain greets and then echoes.
	web, rpc, secure, plain string

	mu   sync.Mutex
	keys []string
}

func newWorld(t testing.TB) *world {
	w := &world{TB: t}
	w.web, w.rpc, w.secure, w.plain = w.serveWeb(), w.serveRPC(), w.serveTLS(), w.servePlain()
	p, err := routing.New(routing.Config{Address: "127.0.0.1:0", Service: "10.96.0.1"})
	w.must(err)
	w.proxy = p
	background.Run(t, p.Run)
	return w
}

// newPod returns a world with the proxy in a pod of its own, in which connections are redirected to it.
func newPod(t testing.TB, change ...func(*routing.Config)) *world {
	if !podnet.Inside() {
		t.Fatal("this test makes a network namespace: run it as root")
	}
	w := newWorld(t)
	var err error
	w.pod, err = podnet.NewPod(1)
	w.must(err)
	t.Cleanup(func() { _ = w.pod.Close() })
	w.must(w.pod.Do(func() error {
		_, err := redirect.Apply(spec.Spec{All: true, To: layout.RedirectPort, Outgoing: layout.ProxyUser}, redirect.Config{})
		return err
	}))
	w.must(w.pod.Do(func() (err error) {
		cfg := routing.Config{Address: "127.0.0.1:0", Redirect: layout.RedirectPort, Dial: w.dialAsProxy}
		for _, of := range change {
			of(&cfg)
		}
		w.proxy, err = routing.New(cfg)
		return err
	}))
	background.Run(t, w.proxy.Run)
	return w
}

// dialAsProxy connects from the pod as the user of the proxy.
func (w *world) dialAsProxy(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = w.pod.Do(func() error {
		if _, err := unix.SetfsuidRetUid(layout.ProxyUser); err != nil { // of this thread, which ends
			return err
		}
		c, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// dial connects as a script does.
func (w *world) dial(address string) (c *net.TCPConn) {
	w.Helper()
	open := func() error {
		conn, err := net.Dial("tcp", address)
		c, _ = conn.(*net.TCPConn)
		return err
	}
	w.must(w.pod.Do(open))
	w.Cleanup(func() { _ = c.Close() })
	return c
}

// output runs a command where scripts run, and returns its output.
func (w *world) output(cmd *exec.Cmd) (string, error) {
	var text []byte
	run := func() (err error) { text, err = cmd.CombinedOutput(); return err }
	if w.pod == nil {
		err := run()
		return string(text), err
	}
	err := w.pod.Do(run)
	return string(text), err
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// begin begins an execution with the key mine.
func (w *world) begin() *routing.Execution {
	e := w.proxy.Begin(&jobexecv1.RunRequest{Routing: &jobexecv1.RoutingContext{Inject: true, RoutingKey: "mine"}}, nil, false)
	w.seen()
	return e
}

// record records the key of a request.
func (w *world) record(lines func(string) []string) string {
	key := routingkey.Of(lines, nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys = append(w.keys, key)
	return key
}

// seen returns the keys of the requests since it was called last.
func (w *world) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := w.keys
	w.keys = nil
	return keys
}

// listen listens at an address of this machine.
func (w *world) listen() net.Listener {
	all, err := net.InterfaceAddrs()
	w.must(err)
	host := ""
	for _, a := range all {
		if ip, is := a.(*net.IPNet); is && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			host = ip.IP.String()
		}
	}
	if host == "" {
		w.Skip("this machine has only loopback addresses, and clients do not use proxies for these")
	}
	l, err := net.Listen("tcp", host+":0")
	w.must(err)
	w.Cleanup(func() { _ = l.Close() })
	return l
}

func (w *world) serveWeb() string {
	l := w.listen()
	s := &http.Server{Handler: http.HandlerFunc(w.respond), Protocols: new(http.Protocols)} //nolint:gosec // A test.
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(l) }()
	w.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// respond responds with the protocol, the target and the key of a request, or echoes its body and trailer.
func (w *world) respond(out http.ResponseWriter, r *http.Request) {
	key := w.record(func(name string) []string { return r.Header[textproto.CanonicalMIMEHeaderKey(name)] })
	switch r.URL.Path {
	case "/socket":
		c, err := (&websocket.Upgrader{}).Upgrade(out, r, nil)
		if err != nil {
			return
		}
		defer c.Close() //nolint:errcheck // A test.
		for {
			kind, text, err := c.ReadMessage()
			if err != nil || c.WriteMessage(kind, append([]byte(key+" "), text...)) != nil {
				return
			}
		}
	case "/echo":
		_ = http.NewResponseController(out).EnableFullDuplex()
		out.Header().Set("Trailer", "X-End")
		out.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(out).Flush()
		for buffer := make([]byte, 1024); ; {
			n, err := r.Body.Read(buffer)
			_, _ = out.Write(buffer[:n])
			_ = http.NewResponseController(out).Flush()
			if err != nil {
				break
			}
		}
		out.Header().Set("X-End", r.Trailer.Get("X-Sum"))
	case "/cut":
		_, _ = io.WriteString(out, "half")
		_ = http.NewResponseController(out).Flush()
		panic(http.ErrAbortHandler)
	default:
		_, _ = fmt.Fprintf(out, "%s %s %s forwarded=%q h2c=%q key=%s\n", r.Proto, r.Host, r.RequestURI, r.Header.Get("X-Forwarded-For"), r.Header.Get("Upgrade"), key)
	}
}

func (w *world) serveRPC() string {
	l := w.listen()
	s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		w.record(func(name string) []string { return metadata.ValueFromIncomingContext(ctx, name) })
		return handle(ctx, request)
	}))
	healthv1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	w.Cleanup(s.Stop)
	return l.Addr().String()
}

func (w *world) serveTLS() string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(w.respond))
	_ = s.Listener.Close()
	s.Listener = w.listen()
	s.StartTLS()
	w.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// servePlain serves a protocol in which the server speaks first, and ends after the client.
func (w *world) servePlain() string {
	l := w.listen()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close() //nolint:errcheck // A test.
				_, _ = io.WriteString(c, "hi")
				text, _ := io.ReadAll(c)
				_, _ = c.Write(text)
			}()
		}
	}()
	return l.Addr().String()
}

// tunnel opens a tunnel.
func (w *world) tunnel(to string) (*net.TCPConn, *bufio.Reader) {
	w.Helper()
	c, err := net.Dial("tcp", w.proxy.Address())
	w.must(err)
	w.Cleanup(func() { _ = c.Close() })
	_, err = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
	w.must(err)
	from := bufio.NewReader(c)
	answer, err := http.ReadResponse(from, &http.Request{Method: http.MethodConnect})
	w.must(err)
	if answer.StatusCode != http.StatusOK {
		w.Fatal(answer.Status)
	}
	return c.(*net.TCPConn), from
}
