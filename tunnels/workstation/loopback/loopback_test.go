package loopback_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/proxy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/workstation/loopback"
)

// into returns an Opener for a cluster with these names.
func into(names map[string]string) loopback.Opener {
	return func(ctx context.Context, host string, port uint16) (net.Conn, error) {
		if host == "169.254.169.254" {
			return nil, &carrier.RefusedError{Refused: &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_DESTINATION, Message: "that is no place to go"}}
		}
		at, ok := names[fmt.Sprintf("%s:%d", host, port)]
		if !ok {
			return nil, &carrier.RefusedError{Refused: &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_NOT_FOUND, Message: "there is no " + host}}
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", at)
	}
}

// listen returns a listener, and serves it until the test ends.
func listen(t *testing.T, serve func(context.Context, net.Listener) error) string {
	t.Helper()
	l, err := loopback.Listen("localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	return l.Addr().String()
}

// echo is a server that returns the key of a request, and switches to a plain echo on request.
func echo(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "echo" {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(c, rw)
		return
	}
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(w, "%s %s key=%s body=%s xff=%q", r.Host, r.URL.Path, r.Header.Get("baggage"), body, r.Header.Get("X-Forwarded-For"))
}

func keyed(h http.Header) { h.Set("baggage", "sd-routing-key=mine") }

func web(t *testing.T) (loopback.Web, string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(s.Close)
	at := s.Listener.Addr().String()
	return loopback.Web{Open: into(map[string]string{"cart.shop:80": at, "cart.shop:8080": at}), Keyed: keyed}, at
}

func read(t *testing.T, r *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", r.StatusCode, strings.TrimSpace(string(text)))
}

func TestOnlyThisMachineIsListenedOn(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "example.com:80", "8080", "192.168.1.1:80"} {
		if l, err := loopback.Listen(address); err == nil {
			l.Close()
			t.Errorf("it listens on %s", address)
		}
	}
	l, err := loopback.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := loopback.Listen(l.Addr().String()); err == nil || !strings.Contains(err.Error(), "another program listens") {
		t.Errorf("a port in use: %v", err)
	}
}

func TestLocalhostIsBothFamilies(t *testing.T) {
	six, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6: %v", err)
	}
	defer six.Close()
	_, port, _ := net.SplitHostPort(six.Addr().String())
	if l, err := loopback.Listen("localhost:" + port); err == nil || !strings.Contains(err.Error(), "another program listens on [::1]:"+port) {
		if err == nil {
			l.Close()
		}
		t.Errorf("the address of IPv6 is taken: %v", err)
	}
	w, _ := web(t)
	at := listen(t, func(ctx context.Context, l net.Listener) error {
		return loopback.ServeMapping(ctx, l, loopback.Mapping{Scheme: "http", Host: "cart.shop", Port: 80}, w)
	})
	_, port, _ = net.SplitHostPort(at)
	for _, host := range []string{"127.0.0.1", "::1"} {
		r, err := http.Get("http://" + net.JoinHostPort(host, port) + "/x")
		if got := read(t, r, err); !strings.HasPrefix(got, "200 cart.shop /x") {
			t.Errorf("%s: %s", host, got)
		}
	}
}

func TestSOCKSResolvesInTheCluster(t *testing.T) {
	w, _ := web(t)
	at := listen(t, func(ctx context.Context, l net.Listener) error { return loopback.ServeSOCKS(ctx, l, w.Open) })
	dialer, err := proxy.SOCKS5("tcp", at, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.(proxy.ContextDialer).DialContext}}
	r, err := client.Get("http://cart.shop/x")
	if got := read(t, r, err); got != `200 cart.shop /x key= body= xff=""` {
		t.Errorf("got %s", got)
	}
	for address, want := range map[string]string{"nowhere.shop:80": "host unreachable", "169.254.169.254:80": "not allowed"} {
		if _, err := dialer.Dial("tcp", address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestOtherProtocolsThanSOCKSAreRefused(t *testing.T) {
	w, _ := web(t)
	at := listen(t, func(ctx context.Context, l net.Listener) error { return loopback.ServeSOCKS(ctx, l, w.Open) })
	for says, want := range map[string]string{
		"GET / HTTP/1.1\r\n\r\n":                               "HTTP/1.0 400",
		"\x04\x01\x00\x50\x7f\x00\x00\x01\x00":                 "",
		"\x05\x01\x02":                                         "\x05\xff",
		"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00P":    "\x05\x00\x05\x07",
		"\x05\x01\x00\x05\x01\x00\x09\x7f\x00\x00\x01\x00P":    "\x05\x00\x05\x08",
		"\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x00": "\x05\x00\x05\x08",
		"\x05\x01\x00\x05\x01\x00\x03\x00\x00P":                "\x05\x00\x05\x08",
	} {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, says)
		got, _ := io.ReadAll(c)
		c.Close()
		if !strings.HasPrefix(string(got), want) || want == "" && len(got) > 0 {
			t.Errorf("to %q it answered %q", says, got)
		}
	}
}

func TestTheHTTPProxyAddsTheKey(t *testing.T) {
	w, _ := web(t)
	at := listen(t, func(ctx context.Context, l net.Listener) error { return loopback.ServeProxy(ctx, l, w) })
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: at})}}
	r, err := client.Post("http://cart.shop/x", "text/plain", strings.NewReader("hello"))
	if got := read(t, r, err); got != `200 cart.shop /x key=sd-routing-key=mine body=hello xff=""` {
		t.Errorf("got %s", got)
	}
	r, err = client.Get("http://nowhere.shop/")
	if got := read(t, r, err); got != "502 nowhere.shop is not reached through the tunnel: there is no nowhere.shop" {
		t.Errorf("a name that is not there: %s", got)
	}
	r, err = client.Get("http://169.254.169.254/latest")
	if got := read(t, r, err); !strings.HasPrefix(got, "403 ") {
		t.Errorf("a forbidden address: %s", got)
	}
	r, err = http.Get("http://" + at + "/x")
	if got := read(t, r, err); !strings.HasPrefix(got, "400 This is an HTTP proxy") {
		t.Errorf("a request that is not for a proxy: %s", got)
	}
}

func TestTheHTTPProxyConnects(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(echo))
	defer s.Close()
	w := loopback.Web{Open: into(map[string]string{"cart.shop:443": s.Listener.Addr().String()}), Keyed: keyed}
	at := listen(t, func(ctx context.Context, l net.Listener) error { return loopback.ServeProxy(ctx, l, w) })
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: at}), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a test
	r, err := client.Get("https://cart.shop/x")
	if got := read(t, r, err); got != `200 cart.shop /x key= body= xff=""` {
		t.Errorf("got %s", got)
	}
	if _, err := client.Get("https://nowhere.shop/"); err == nil || !strings.Contains(err.Error(), "Bad Gateway") {
		t.Errorf("a name that is not there: %v", err)
	}
}

func TestAMappedPort(t *testing.T) {
	w, _ := web(t)
	w.Origins = []string{"http://shop.test:3000"}
	at := listen(t, func(ctx context.Context, l net.Listener) error {
		return loopback.ServeMapping(ctx, l, loopback.Mapping{Scheme: "http", Host: "cart.shop", Port: 8080}, w)
	})
	// The headers of a browser for an image on another site's page, and for a click on a link
	// there.
	image := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"no-cors"}, "Sec-Fetch-Dest": {"image"}}
	click := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}
	frame := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"iframe"}}
	of := func(page string) http.Header { h := image.Clone(); h.Set("Referer", page); return h }
	for _, c := range []struct {
		host, origin, want string
		browser            http.Header
	}{
		{at, "", `200 cart.shop:8080 /x key=sd-routing-key=mine body= xff=""`, nil},
		{"localhost:1", "http://localhost:3000", `200`, nil},
		{"cart.shop", "http://shop.test:3000", `200`, nil},
		{"evil.example", "", `403 Requests to this port must have localhost`, nil},
		{at, "https://evil.example", `403 Pages of "https://evil.example" may not`, nil},
		{at, "null", `403 Pages of "null"`, nil},
		{at, "http://localhost.evil.example", `403 Pages of`, nil},
		{at, "", `403 Pages of "" may not`, image},
		{at, "", `403 Pages of "https://evil.example/" may not`, of("https://evil.example/")},
		{at, "", `403 Pages of`, frame},
		{at, "", `200`, of("http://shop.test:3000/cart")},
		{at, "", `200`, of("http://localhost:3000/cart")},
		{at, "", `200`, click},
	} {
		r, err := http.NewRequest(http.MethodGet, "http://"+at+"/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		if c.browser != nil {
			r.Header = c.browser
		}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		got, err := http.DefaultClient.Do(r)
		if text := read(t, got, err); !strings.HasPrefix(text, c.want) {
			t.Errorf("host %s, origin %s, %v: %s", c.host, c.origin, c.browser, text)
		}
	}
}

func TestAMappedPortSwitchesProtocols(t *testing.T) {
	w, _ := web(t)
	at := listen(t, func(ctx context.Context, l net.Listener) error {
		return loopback.ServeMapping(ctx, l, loopback.Mapping{Scheme: "http", Host: "cart.shop", Port: 80}, w)
	})
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(c)
	r, err := http.ReadResponse(in, nil)
	if err != nil || r.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v", r, err)
	}
	_, _ = io.WriteString(c, "hello\n")
	if line, err := in.ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("read %q, %v", line, err)
	}
}

func TestAMappedPortForTCPEndsHalfByHalf(t *testing.T) {
	db := background.Listen(t, func(c net.Conn) {
		text, _ := io.ReadAll(c) // All of it, before it answers.
		_, _ = io.WriteString(c, "got "+string(text))
	})
	w := loopback.Web{Open: into(map[string]string{"db.shop:5432": db})}
	at := listen(t, func(ctx context.Context, l net.Listener) error {
		return loopback.ServeMapping(ctx, l, loopback.Mapping{Scheme: "tcp", Host: "db.shop", Port: 5432}, w)
	})
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, "all")
	_ = c.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "got all" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestAMappedPortForGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	keys := make(chan []string, 8)
	s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("retry", "never"))
		return h(ctx, request)
	}), grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		md, _ := metadata.FromIncomingContext(ss.Context())
		keys <- md.Get("baggage")
		return h(srv, ss)
	}))
	state := health.NewServer()
	healthpb.RegisterHealthServer(s, state)
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	w := loopback.Web{Open: into(map[string]string{"cart.shop:9000": l.Addr().String()}), Keyed: keyed}
	at := listen(t, func(ctx context.Context, l net.Listener) error {
		return loopback.ServeMapping(ctx, l, loopback.Mapping{Scheme: "grpc", Host: "cart.shop", Port: 9000}, w)
	})
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	// Each answer comes at once, while the call goes on.
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
		state.SetServingStatus("", want)
		if got, err := watch.Recv(); err != nil || got.GetStatus() != want {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	if got := <-keys; len(got) != 1 || got[0] != "sd-routing-key=mine" {
		t.Errorf("the call had the key %v", got)
	}
	// A status without an answer has neither headers nor a body. What flushes headers must not come before it.
	for n := range 500 {
		var header, trailer metadata.MD
		_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: "none"}, grpc.Header(&header), grpc.Trailer(&trailer))
		if status.Code(err) != codes.NotFound || len(trailer.Get("retry")) != 1 || len(header.Get("retry")) != 0 {
			t.Fatalf("the status of call %d came as %v, with headers %v and the trailer %v", n, err, header, trailer)
		}
	}
}

// A response that is not gRPC over HTTP/2 keeps its headers, whatever their names: gRPC for
// browsers has its status among them.
func TestHeadersStayHeaders(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		w.Header().Set("Grpc-Status", "5")
		w.Header().Set("Access-Control-Allow-Origin", "*")
	}))
	defer server.Close()
	w := loopback.Web{Open: into(map[string]string{"cart.shop:80": server.Listener.Addr().String()})}
	at := listen(t, func(ctx context.Context, l net.Listener) error {
		return loopback.ServeMapping(ctx, l, loopback.Mapping{Scheme: "http", Host: "cart.shop", Port: 80}, w)
	})
	for _, kind := range []string{"application/grpc-web+proto", "application/grpc"} {
		r, err := http.Get("http://" + at + "/?type=" + url.QueryEscape(kind))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.Header.Get("Grpc-Status") != "5" || r.Header.Get("Access-Control-Allow-Origin") != "*" || len(r.Trailer) > 0 {
			t.Errorf("%s: headers %v, trailer %v", kind, r.Header, r.Trailer)
		}
	}
}

func TestMappingsAsPeopleWriteThem(t *testing.T) {
	m, err := loopback.ParseMapping("http://cart.shop.svc:80@localhost:8080")
	if err != nil || m != (loopback.Mapping{Scheme: "http", Host: "cart.shop.svc", Port: 80, Bind: "localhost:8080"}) {
		t.Errorf("got %+v, %v", m, err)
	}
	for _, text := range []string{"cart.shop:80@localhost:8080", "udp://cart:80@localhost:1", "http://cart:80", "http://cart@localhost:1", "http://cart:0@localhost:1", "http://cart:80@8080", "http://:80@localhost:1", "http://cart:99999@localhost:1", "http://cart:80@localhost:1"} {
		if m, err := loopback.ParseMapping(text); err == nil {
			t.Errorf("%q was read as %+v", text, m)
		}
	}
}
