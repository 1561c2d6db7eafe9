package keeper_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/background"
)

func TestGRPCIsRoutedCallByCallAndStreamByStream(t *testing.T) {
	r := newRig(t)
	r.serveGRPC(r.app(9000), "baseline")
	r.serveGRPC(r.fork("10.96.3.1:80"), "fork")
	r.Board.Declare(sandbox("k1", "10.96.3.1:80", 9000))
	dead := sandbox("slow", "10.96.3.2:80", 9000)
	dead.NotReady = true
	r.Board.Declare(dead)
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	r.must(r.check(9000, "baseline", ""))
	r.must(r.check(9000, "baseline", "unknown"))
	r.must(r.check(9000, "fork", "k1"))
	if err := r.check(9000, "fork", ""); err == nil {
		t.Error("the baseline knows the fork's service: the test proves nothing")
	}
	if err := r.check(9000, "fork", "slow"); err == nil || !strings.Contains(err.Error(), "Unavailable") || !strings.Contains(err.Error(), "sb-slow") {
		t.Errorf("a sandbox that is not ready: %v", err)
	}
}

func TestTLSPassesUntouched(t *testing.T) {
	r := newRig(t)
	r.Board.Complete()
	r.serveXDS()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	r.must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"customer"}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	r.must(err)
	listener := tls.NewListener(r.app(8443), &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: private}}})
	r.serveHTTP(listener, "baseline")
	r.sidecar()
	r.ready()
	request, err := http.NewRequest(http.MethodGet, "https://"+r.address+":8443/", http.NoBody)
	r.must(err)
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(certificate)
	r.must(err)
	pool.AddCert(parsed)
	got, err := do(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "customer"}}, request)
	if err != nil || got.Side != "baseline" {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestProtocolsInWhichTheServerSpeaksFirstPass(t *testing.T) {
	r := newRig(t)
	r.Board.Complete()
	r.serveXDS()
	for _, port := range []int{3306, 7000} { // a well-known one, and another
		go background.Accept(r.app(port), greet)
	}
	r.sidecar()
	r.ready()
	for i, port := range []int{3306, 7000} {
		t.Run(fmt.Sprint(port), func(t *testing.T) {
			c, err := net.Dial("tcp", net.JoinHostPort(r.address, fmt.Sprint(port)))
			r.must(err)
			defer c.Close()
			words := bufio.NewReader(deadline(c))
			if hello, err := words.ReadString('\n'); err != nil || hello != "hello\n" {
				t.Fatalf("%q, %v", hello, err)
			}
			if _, err := c.Write([]byte("name\n")); err != nil {
				t.Fatal(err)
			}
			if reply, err := words.ReadString('\n'); err != nil || reply != "hello name\n" {
				t.Errorf("%q, %v", reply, err)
			}
			if n := r.waited(); n != fmt.Sprint(i) {
				t.Errorf("%s connections were waited for, want %d: a plain port has no delay", n, i)
			}
		})
	}
}

// greet speaks first, and then repeats one line.
func greet(c net.Conn) {
	_, _ = io.WriteString(deadline(c), "hello\n")
	if line, err := bufio.NewReader(c).ReadString('\n'); err == nil {
		_, _ = io.WriteString(c, "hello "+line)
	}
}

// A connection that was opened early and carries its first request late is
// routed like any other.
func TestAConnectionThatIsSilentAtFirstIsStillRouted(t *testing.T) {
	r := start(t, sandbox("k1", "10.96.3.9:80", 8080))
	r.serveHTTP(r.fork("10.96.3.9:80"), "fork")
	late := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		time.Sleep(400 * time.Millisecond) // the silence is what is tested
		return c, err
	}
	one, two := &http.Transport{DialContext: late}, http2Only()
	two.DialContext = late
	for proto, transport := range map[string]*http.Transport{"HTTP/1.1": one, "HTTP/2": two} {
		for k, side := range map[string]string{"k1": "fork", "unknown": "baseline"} {
			got, err := r.over(transport, 8080, key(k))
			if err != nil || got.Side != side || !strings.HasPrefix(got.Proto, proto) {
				t.Errorf("%s, key %s: %v, %+v", proto, k, err, got)
			}
		}
	}
}

func TestOtherProtocolsPassWheneverTheClientSpeaks(t *testing.T) {
	r := newRig(t)
	r.Board.Complete()
	r.serveXDS()
	for _, port := range []int{6379, 3306} { // one that is looked at, and a plain one
		go background.Accept(r.app(port), echoUntilTheEnd)
	}
	r.sidecar()
	r.ready()
	for _, port := range []string{"6379", "3306"} {
		for _, silence := range []time.Duration{0, 400 * time.Millisecond} {
			// The second could become a request's first word, and does not.
			for _, words := range []string{"*1\r\n$4\r\nPING\r\n", "hello"} {
				c, err := net.Dial("tcp", net.JoinHostPort(r.address, port))
				r.must(err)
				defer c.Close()
				time.Sleep(silence) // what is tested
				_, err = io.WriteString(deadline(c), words)
				r.must(err)
				back := make([]byte, len(words))
				if _, err := io.ReadFull(c, back); err != nil || string(back) != words {
					t.Fatalf("port %s, after %v: %q, %v, want %q", port, silence, back, err, words)
				}
				r.must(c.(*net.TCPConn).CloseWrite())
				if rest, err := io.ReadAll(c); err != nil || string(rest) != "bye" {
					t.Errorf("port %s, after %v: %q, %v", port, silence, rest, err)
				}
			}
		}
	}
}

// echoUntilTheEnd sends back all input, and a last word when the client has ended its side.
func echoUntilTheEnd(c net.Conn) {
	_, _ = io.Copy(c, deadline(c))
	_, _ = io.WriteString(c, "bye")
}

// waited returns how many connections were silent for too long, so that Envoy passed them on.
func (r *rig) waited() string {
	r.t.Helper()
	request, err := http.NewRequest(http.MethodGet, "http://envoy/stats?filter="+devmesh.LateConnections, http.NoBody)
	r.must(err)
	got, err := do(&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", devmesh.Config{RunPath: r.run}.AdminSocket())
	}}, request)
	r.must(err)
	return strings.TrimSpace(strings.TrimPrefix(got.Body, "tcp.late.downstream_cx_total:"))
}

func TestWebSocketsAreRouted(t *testing.T) {
	r := newRig(t)
	upgrade := func(l net.Listener, side string) {
		server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = io.WriteString(deadline(c), "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			if line, err := buffered.ReadString('\n'); err == nil {
				_, _ = io.WriteString(c, side+" "+line)
			}
		})}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	upgrade(r.app(8080), "baseline")
	upgrade(r.fork("10.96.3.3:80"), "fork")
	r.Board.Declare(sandbox("k1", "10.96.3.3:80", 8080))
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	for side, k := range map[string]string{"baseline": "unknown", "fork": "k1"} {
		t.Run(side, func(t *testing.T) {
			c, err := net.Dial("tcp", r.address+":8080")
			r.must(err)
			defer c.Close()
			_, err = fmt.Fprintf(deadline(c), "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nbaggage: sd-routing-key=%s\r\n\r\n", k)
			r.must(err)
			reader := bufio.NewReader(c)
			response, err := http.ReadResponse(reader, nil)
			r.must(err)
			defer response.Body.Close()
			if response.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%v", response)
			}
			_, err = io.WriteString(c, "ping\n")
			r.must(err)
			if line, err := reader.ReadString('\n'); err != nil || line != side+" ping\n" {
				t.Errorf("%q, %v", line, err)
			}
		})
	}
}

func TestBodiesPassWhole(t *testing.T) {
	r := start(t, sandbox("k1", "10.96.3.4:80", 8080))
	r.serveHTTP(r.fork("10.96.3.4:80"), "fork")
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
	for side, k := range map[string]string{"baseline": "unknown", "fork": "k1"} {
		for proto, transport := range map[string]*http.Transport{"HTTP/1.1": {}, "HTTP/2": http2Only()} {
			request, err := http.NewRequest(http.MethodPut, "http://"+r.address+":8080/", bytes.NewReader(body))
			r.must(err)
			request.Header.Set("baggage", "sd-routing-key="+k)
			got, err := do(transport, request)
			if err != nil || got.Side != side || got.echo.Body != string(body) || !strings.HasPrefix(got.Proto, proto) {
				t.Errorf("%s %s: %v, %s, %s, %d bytes", side, proto, err, got.Side, got.Proto, len(got.echo.Body))
			}
		}
	}
}

func TestOldHTTPIsServed(t *testing.T) {
	r := start(t)
	c, err := net.Dial("tcp", r.address+":8080")
	r.must(err)
	defer c.Close()
	_, err = io.WriteString(deadline(c), "GET / HTTP/1.0\r\n\r\n")
	r.must(err)
	all, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(all), `"Side":"baseline"`) {
		t.Errorf("%s, %v", all, err)
	}
}
