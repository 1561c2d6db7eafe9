package loopback_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tests/background"
	"switchyard.dev/tunnels/workstation/loopback"
)

// recorder is a destination that answers each request with its request line, as it came, and its body.
func recorder(t *testing.T) string {
	t.Helper()
	return background.Listen(t, record)
}

func record(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader("POST / HTTP/1.1\r\n"), in)))
		if err != nil {
			return
		}
		body, _ := io.ReadAll(r.Body)
		answer := strings.TrimSuffix(line, "\r\n") + "|" + string(body) + "|" + r.Header.Get("Baggage")
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(answer), answer)
		return
	}
}

// odd are targets of which a parser makes something else, or nothing.
var odd = []string{
	"/", "/?", "/t?", "/t??", "/t?x=1;y=2&z=3", "/t?agent=Test/5.0%20(X11;%20Linux)&token=t", "/t?q=100%&r=1", "/t?q=%zz&r=1", "/t?/p%2Fq/..;v=1/",
	`/a|b"c<d>?e|f`, "/a%zz", "/100%", "/%", "//a|b//..", "//host/x", "/a/../b/./c", "/é?ü=\xff", "/x#y?z", "/%2f%2F", "/a+b?c+d=[1]", "/x;y=/z;", "/?a=1&a=2&&=",
	"/a%00b", "/\\..\\x", "/a:b@c", "/" + strings.Repeat("long%", 3000),
}

func TestTargetsArriveAsTheyAreWritten(t *testing.T) {
	destination := recorder(t)
	w := loopback.Web{Open: into(map[string]string{"cart.shop:80": destination}), Keyed: keyed}
	mapped := listen(t, func(ctx context.Context, l net.Listener) error {
		return loopback.ServeMapping(ctx, l, loopback.Mapping{Scheme: "http", Host: "cart.shop", Port: 80}, w)
	})
	proxied := listen(t, func(ctx context.Context, l net.Listener) error { return loopback.ServeProxy(ctx, l, w) })
	for name, way := range map[string]struct{ at, before string }{"--map http": {mapped, ""}, "HTTP proxy": {proxied, "http://cart.shop"}} {
		c, err := net.Dial("tcp", way.at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		in := bufio.NewReader(c) // all of them over one connection
		ask := func(method, target, rest, want string) {
			t.Helper()
			go func() { _, _ = io.WriteString(c, method+" "+target+" HTTP/1.1\r\nHost: cart.shop\r\n"+rest) }()
			r, err := http.ReadResponse(in, nil)
			if got := read(t, r, err); got != "200 "+want {
				t.Fatalf("%s: %s %.80q came as %.200q", name, method, target, got)
			}
		}
		for _, target := range odd {
			ask("GET", way.before+target, "\r\n", "GET "+target+" HTTP/1.1||sd-routing-key=mine")
			ask("POST", way.before+target, "Content-Length: 11\r\n\r\nGET / HTTP/", "POST "+target+" HTTP/1.1|GET / HTTP/|sd-routing-key=mine")
			ask("PUT", way.before+target, "Transfer-Encoding: chunked\r\n\r\n5;x=y\r\na\r\nbc\r\n2\r\nde\r\n0\r\nTrail: x\r\n\r\n",
				"PUT "+target+" HTTP/1.1|a\r\nbcde|sd-routing-key=mine")
		}
		// An offer to switch that the destination passes over ends nothing.
		ask("GET", way.before+"/100%", "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "GET /100% HTTP/1.1||sd-routing-key=mine")
		ask("GET", way.before+"/101%", "\r\n", "GET /101% HTTP/1.1||sd-routing-key=mine")
		if way.before == "" {
			ask("OPTIONS", "*", "\r\n", "OPTIONS * HTTP/1.1||sd-routing-key=mine")
		} else {
			ask("OPTIONS", way.before, "\r\n", "OPTIONS * HTTP/1.1||sd-routing-key=mine")
			ask("GET", way.before, "\r\n", "GET / HTTP/1.1||sd-routing-key=mine")
			ask("GET", "HTTP://cart.shop?a;b", "\r\n", "GET /?a;b HTTP/1.1||sd-routing-key=mine")
		}
	}
}

func TestTargetsThatNoRequestHasAreRefused(t *testing.T) {
	w := loopback.Web{Open: into(map[string]string{"cart.shop:80": recorder(t)})}
	at := listen(t, func(ctx context.Context, l net.Listener) error {
		return loopback.ServeMapping(ctx, l, loopback.Mapping{Scheme: "http", Host: "cart.shop", Port: 80}, w)
	})
	for _, target := range []string{"/a b", "/a\tb", "/a\x00b", "/a\x7fb", "/a\rb", "x", "", " /a", "/a "} {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, "GET "+target+" HTTP/1.1\r\nHost: cart.shop\r\n\r\n")
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if got := read(t, r, err); !strings.HasPrefix(got, "400 ") {
			t.Errorf("%q came as %s", target, got)
		}
		c.Close()
	}
}
