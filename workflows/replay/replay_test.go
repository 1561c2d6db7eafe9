package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"switchyard.dev/workflows/comparison/noise"
	"switchyard.dev/workflows/replay"
	"switchyard.dev/xds/routingkey"
)

const key = "k7q2m9x4v1tz8"

// shop is an application with its fork: two servers behind an address at which requests with the key go to the fork, as at the
// sidecar of a baseline.
type shop struct {
	*httptest.Server
	sent [2]atomic.Int64
	// wrong sends requests with the key to the baseline.
	wrong atomic.Bool
}

// newShop serves both sides with HTTP/1.1 and HTTP/2 without TLS. n is the number of the request on its side, from 1.
func newShop(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, fork bool, n int64)) *shop {
	s := &shop{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fork, side := false, 0
		if got := routingkey.Of(textproto.MIMEHeader(r.Header).Values, []string{"X-Key"}); got != "" {
			if got != key || r.Header.Get("X-Key") != key {
				t.Errorf("the key is %q in %q", got, r.Header)
			}
			fork = !s.wrong.Load()
		}
		w.Header().Set("Sd-Routed", "baseline")
		if fork {
			side = 1
			w.Header().Set("Sd-Routed", "sandbox=pr-12")
		}
		answer(w, r, fork, s.sent[side].Add(1))
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// config sends all requests to the shop.
func (s *shop) config() replay.Config {
	return replay.Config{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != "cart.shop.svc:80" {
				return nil, fmt.Errorf("%s is not an address of the shop", address)
			}
			return (&net.Dialer{}).DialContext(ctx, network, s.Listener.Addr().String())
		},
		Find: func(_ context.Context, workload string, port uint32) (replay.Target, error) {
			if workload != "ForkedWorkload/shop/cart" || port != 8080 {
				return replay.Target{}, errors.New("there is no such fork")
			}
			return replay.Target{Address: "cart.shop.svc:80", Key: key, BaselineNames: []string{"cart-1"}, ForkNames: []string{"cart-fork-2"}}, nil
		},
		Runs: 3, Most: 100, Custom: []string{"X-Key"},
	}
}

func get(id, target string) replay.Request {
	return replay.Request{ID: id, Workload: "ForkedWorkload/shop/cart", Port: 8080, Method: "GET", Target: target, Host: "cart", Protocol: "HTTP/1.1",
		Header: http.Header{"Baggage": {"sd-routing-key=old,user=ada"}, "X-Key": {"old"}, "Accept": {"*/*"}}}
}

func run(t *testing.T, cfg replay.Config, all ...replay.Request) *replay.Report {
	t.Helper()
	r, err := replay.Run(t.Context(), cfg, all)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// text returns the verdicts and the findings of a report.
func text(r *replay.Report) string {
	var b strings.Builder
	for _, e := range r.Endpoints {
		fmt.Fprintf(&b, "%s %s %s ×%d\n", e.Verdict, e.Method, e.Path, e.Requests)
		for _, f := range e.Findings {
			fmt.Fprintf(&b, "  %s %s: %q, not %q ×%d (%s)\n", f.Verdict, f.Path, f.Value, f.Expected, f.Requests, f.Example)
		}
	}
	for _, l := range slices.Concat(r.Unpaired, r.NotReplayed) {
		fmt.Fprintf(&b, "- %s %s: %s\n", l.ID, l.Target, l.Reason)
	}
	return b.String()
}

func same(t *testing.T, r *replay.Report, verdict noise.Colour, want string) {
	t.Helper()
	if got := text(r); got != want || r.Verdict != verdict {
		t.Errorf("it is %q\n%s, not %q\n%s", r.Verdict, got, verdict, want)
	}
}

func TestOneDifferenceIsRedAndTheNoiseIsNot(t *testing.T) {
	s := newShop(t, func(w http.ResponseWriter, r *http.Request, fork bool, n int64) {
		if r.Host != "cart" || r.Header.Get("Accept") != "*/*" || r.Header.Get("Baggage") == "" || r.Header.Get("User-Agent") != "" || r.Header.Get("Authorization") != "Bearer t" {
			t.Errorf("request %s for %s has %q", r.RequestURI, r.Host, r.Header)
		}
		pod, name, side := "cart-1", "desserts", n
		if fork {
			pod, side = "cart-fork-2", n+50
		}
		if fork && strings.HasPrefix(r.URL.Path, "/items/") {
			name = "desserts (new)"
		}
		w.Header().Set("X-Request", fmt.Sprintf("%032x", side*7919))
		_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "pod": pod, "took": float64(side%7) / 8, "echo": r.RequestURI})
	})
	cfg := s.config()
	cfg.Header = http.Header{"authorization": {"Bearer t"}}
	r := run(t, cfg, get("a", "/items/1?full=1"), get("b", "/config%2Fall?x=/y"), get("c", "/items/2"), get("d", "/items/1"))
	same(t, r, noise.Red, "red GET /items/{} ×3\n  red body/name: \"desserts (new)\", not \"desserts\" ×3 (a)\ngreen GET /config%2Fall ×1\n")
	if why := r.Endpoints[0].Findings[0].Why; !strings.Contains(why, "The baseline had desserts in all 6 runs") || r.Endpoints[0].Findings[0].ErrorLevel > 0.0005 {
		t.Errorf("red differences are not sent again: %q", why)
	}
	if b, f := s.sent[0].Load(), s.sent[1].Load(); b != 4*3+3*3 || f != b {
		t.Errorf("%d requests to the baseline, %d to the fork", b, f)
	}
}

// The baseline differs from the fork in three runs, and has both values in more of them.
func TestChanceIsNotRed(t *testing.T) {
	s := newShop(t, func(w http.ResponseWriter, _ *http.Request, fork bool, n int64) {
		value := "one"
		if fork || n > 3 {
			value = "two"
		}
		_, _ = io.WriteString(w, `{"cache":"`+value+`"}`)
	})
	if r := run(t, s.config(), get("a", "/")); r.Verdict == noise.Red {
		t.Errorf("it is red: %s", text(r))
	}
}

func TestRequestsThatAreSent(t *testing.T) {
	var seen atomic.Value
	s := newShop(t, func(_ http.ResponseWriter, r *http.Request, _ bool, _ int64) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		seen.Store(r.Method + " " + r.RequestURI + " " + string(body))
	})
	post := func(id, target string) replay.Request {
		q := get(id, target)
		q.Method, q.Body = "POST", []byte("one")
		return q
	}
	cut, socket, call, away, slashes := post("cut", "/orders/17"), get("socket", "/ws"), post("call", "/shop.Cart/Get"), get("away", "/"), get("slashes", "//x")
	cut.Missing, socket.Protocol, call.Protocol, away.Port = "its body is cut", "websocket", "grpc", 9
	cfg := s.config()
	cfg.Most = 1
	rule, err := replay.ParseRule("post /orders/{}")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Rules = []replay.Rule{rule}
	r := run(t, cfg, post("a", "/orders/12?x=1"), post("b", "/carts/12"), cut, socket, call, slashes, away, get("c", "/"))
	same(t, r, noise.Green, `green POST /orders/{} ×1
- b /carts/12: POST can change data, and no rule names this path
- cut /orders/17: its body is cut
- socket /ws: connections of WebSocket are not compared
- call /shop.Cart/Get: calls of gRPC can change data, and no rule names this one
- slashes //x: its target begins with two slashes
- c /: at most 1 requests of an endpoint are sent
- away /: there is no such fork
`)
	if got := seen.Load(); got != "POST /orders/12?x=1 one" {
		t.Errorf("sent was %q", got)
	}
	for _, wrong := range []string{"", "POST", "POST orders", "POST /a b", "POST /a?b=c"} {
		if _, err := replay.ParseRule(wrong); err == nil {
			t.Errorf("%q is a rule", wrong)
		}
	}
}

// A call of gRPC is compared with its trailers, over HTTP/2 without TLS.
func TestACallOfGRPC(t *testing.T) {
	s := newShop(t, func(w http.ResponseWriter, r *http.Request, fork bool, _ int64) {
		if body, err := io.ReadAll(r.Body); err != nil || r.ProtoMajor != 2 || string(body) != "\x00\x00\x00\x00\x01x" || r.Header.Get("Te") != "trailers" {
			t.Errorf("%s with %q and %q, %v", r.Proto, body, r.Header, err)
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = io.WriteString(w, "\x00\x00\x00\x00\x00")
		w.Header().Set("Grpc-Status", map[bool]string{false: "0", true: "5"}[fork])
	})
	q := get("a", "/shop.Cart/Get")
	q.Method, q.Protocol, q.Body = "POST", "grpc", []byte("\x00\x00\x00\x00\x01x")
	q.Header.Set("Te", "trailers")
	cfg := s.config()
	cfg.Rules = []replay.Rule{{Method: "POST", Path: "/shop.Cart/Get"}}
	same(t, run(t, cfg, q), noise.Red, "red POST /shop.Cart/Get ×1\n  red trailer/grpc-status: \"5\", not \"0\" ×1 (a)\n")
}

func TestAnswersThatAreMissing(t *testing.T) {
	s := newShop(t, func(w http.ResponseWriter, r *http.Request, fork bool, n int64) {
		switch {
		case r.URL.Path == "/crash" && fork, r.URL.Path == "/both", r.URL.Path == "/once" && fork && n%3 == 0:
			panic(http.ErrAbortHandler)
		case r.URL.Path == "/refused" && fork:
			w.Header().Set("Sd-Reason", "sandbox-not-ready")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	r := run(t, s.config(), get("a", "/crash"))
	same(t, r, noise.Red, "- a /crash: the fork has not answered in 3 runs, and the baseline has: EOF\n")
	same(t, run(t, s.config(), get("b", "/both")), "", "- b /both: neither side has answered: EOF\n")
	same(t, run(t, s.config(), get("c", "/refused")), noise.Red, "- c /refused: the fork has not answered in 3 runs, and the baseline has: the proxy answers 503: sandbox-not-ready\n")
	s.sent[1].Store(0)
	same(t, run(t, s.config(), get("d", "/once")), noise.Yellow, "yellow GET /once ×1\n  yellow answer: \"an answer in 2 of 3 runs\", not \"an answer in 3 of 3 runs\" ×1 (d)\n")
	s.wrong.Store(true) // A request with the key is never compared as the fork's where the baseline has served it.
	same(t, run(t, s.config(), get("e", "/")), noise.Red, "- e /: the fork has not answered in 3 runs, and the baseline has: the request was routed to baseline\n")
}

// Large answers are compared by their digest.
func TestALargeAnswer(t *testing.T) {
	s := newShop(t, func(w http.ResponseWriter, r *http.Request, fork bool, _ int64) {
		end := "end"
		if fork && r.URL.Path == "/changed" {
			end = "END"
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 2<<20)+end)
	})
	r := run(t, s.config(), get("a", "/changed"), get("b", "/same"))
	if r.Endpoints[0].Path != "/changed" || r.Endpoints[0].Verdict != noise.Red || r.Endpoints[0].Findings[0].Path != "body" || r.Endpoints[1].Verdict != noise.Green || len(r.Endpoints[1].Problems) != 1 {
		t.Errorf("it is %s%q", text(r), r.Endpoints[1].Problems)
	}
}
