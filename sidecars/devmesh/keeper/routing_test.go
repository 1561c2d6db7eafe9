package keeper_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/xds/routingkey/keytest"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

// start returns a rig with a baseline on port 8080, an xDS server and a sidecar
// that is ready.
func start(t *testing.T, forks ...xdstest.Fork) *rig {
	t.Helper()
	r := newRig(t)
	r.serveHTTP(r.app(8080), "baseline")
	for _, f := range forks {
		r.Board.Declare(f)
	}
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	r.acked()
	return r
}

func TestOnlyTheKeyRoutesToItsFork(t *testing.T) {
	r := start(t)
	r.serveHTTP(r.fork("10.96.1.1:80"), "fork")
	r.expect("baseline", 8080, key("k1"))

	r.Board.Declare(sandbox("k1", "10.96.1.1:80", 8080))
	r.eventually("the change arrives", func() error {
		got, err := r.get(8080, key("k1"))
		if err == nil && got.Side != "fork" {
			err = fmt.Errorf("served by %s", got.Side)
		}
		return err
	})
	r.acked()
	r.expect("baseline", 8080)
	for name, lines := range map[string][][2]string{
		"a longer key":           {key("k1-evil")},
		"the key in upper case":  {key("K1")},
		"another member":         {{"baggage", "x-sd-routing-key=k1"}},
		"the key as whole value": {{"baggage", "k1"}},
		"a path as key":          {key("8080/k1")},
	} {
		t.Run(name, func(*testing.T) { r.expect("baseline", 8080, lines...) })
	}
	for name, line := range map[string][2]string{
		"tracestate":    {"tracestate", "a=b,sd-routing-key=k1"},
		"custom header": {"X-Team", "k1"},
	} {
		t.Run(name, func(*testing.T) { r.expect("fork", 8080, line) })
	}

	r.Board.Withdraw("k1")
	r.acked()
	r.expect("baseline", 8080, key("k1"))
}

func TestTheProxyLeavesRequestsAsTheyAre(t *testing.T) {
	r := start(t, sandbox("k1", "10.96.1.2:80", 8080))
	r.serveHTTP(r.fork("10.96.1.2:80"), "fork")
	odd := [][2]string{
		{translate.DestinationHeader, "10.96.1.2:80"}, {"X_Under_Score", "1"}, {"X-Envoy-Original-Path", "/x"}, {"Upgrade", "h2c"},
		{"Connection", "Upgrade, HTTP2-Settings"}, {"HTTP2-Settings", "AAMAAABkAAQBAAAAAAIAAAAA"},
	}
	for side, lines := range map[string][][2]string{"baseline": odd, "fork": append(odd, key("k1"))} {
		t.Run(side, func(t *testing.T) {
			got := r.expect(side, 8080, lines...)
			if got.Path != "/some//path/../x?q=%2F" {
				t.Errorf("the path became %s", got.Path)
			}
			if got.echo.Header.Get("X_Under_Score") != "1" {
				t.Error("a header with underscores is gone")
			}
			for _, name := range []string{translate.DestinationHeader, "X-Request-Id", "X-Forwarded-For", "X-Envoy-Expected-Rq-Timeout-Ms"} {
				if value, there := got.echo.Header[http.CanonicalHeaderKey(name)]; there {
					t.Errorf("the application saw %s: %s", name, value)
				}
			}
			if got := got.Header; got.Get("Server") != "the application" || got.Get("X-Envoy-Upstream-Service-Time") != "" || got.Get(translate.RoutedHeader) != "" {
				t.Errorf("the answer's headers are %v", got)
			}
		})
	}
}

func TestAResponseNamesItsRouteOnRequest(t *testing.T) {
	odd := sandbox("k2", "10.96.1.3:80", 8080)
	odd.Sandbox = "50%\n"
	unready := sandbox("k3", "10.96.1.3:80", 8080)
	unready.Sandbox, unready.NotReady = "100%", true
	r := start(t, sandbox("k1", "10.96.1.3:80", 8080), odd, unready)
	r.serveHTTP(r.fork("10.96.1.3:80"), "fork")
	newest, _ := r.Board.View.Current()
	version := newest.HashOf(customer).String()[:16]
	for routed, lines := range map[string][][2]string{
		"baseline":         {{"sd-explain", "1"}},
		"sandbox=sb-k1":    {{"sd-explain", "1"}, key("k1")},
		"sandbox=50%25%0A": {{"sd-explain", "1"}, key("k2")},
		"sandbox=100%25":   {{"sd-explain", "1"}, key("k3")},
	} {
		got, err := r.get(8080, lines...)
		if err != nil {
			t.Fatal(err)
		}
		if got.Header.Get(translate.RoutedHeader) != routed || got.Header.Get(translate.TableHeader) != version {
			t.Errorf("%v: %s, %s; want %s, %s", lines, got.Header.Get(translate.RoutedHeader), got.Header.Get(translate.TableHeader), routed, version)
		}
	}
	for _, asked := range []string{"0", "11", ""} {
		if got := r.expect("baseline", 8080, [2]string{"sd-explain", asked}); got.Header.Get(translate.TableHeader) != "" {
			t.Errorf("sd-explain: %q was answered", asked)
		}
	}
}

// A virtual workload keeps its requests at the baseline: they get no 503 although it has no
// address, do not loop, and the answer names the owner of the key.
func TestAKeyThatIsKeptReachesTheBaselineAndIsKnown(t *testing.T) {
	kept := xdstest.Fork{Baseline: customer, Key: "kept", Sandbox: "watcher 7%", Port: 8080, Kept: true}
	unready := kept
	unready.Key, unready.Sandbox, unready.NotReady = "unready", "idle", true
	r := start(t, kept, unready, sandbox("k1", "10.96.1.7:80", 8080))
	r.serveHTTP(r.fork("10.96.1.7:80"), "fork")
	for name, routed := range map[string]string{
		"kept": "baseline-for=watcher 7%25", "unready": "baseline-for=idle", "nobody": "baseline",
	} {
		got := r.expect("baseline", 8080, asks, key(name), [2]string{translate.DestinationHeader, "10.96.1.7:80"})
		if got.Header.Get(translate.RoutedHeader) != routed || got.Header.Get(devmesh.KeyHeader) != name {
			t.Errorf("key %s: %s, key %s; want %s", name, got.Header.Get(translate.RoutedHeader), got.Header.Get(devmesh.KeyHeader), routed)
		}
	}
	r.expect("fork", 8080, key("k1"))

	// It becomes a fork, and then it does not any more.
	r.Board.Declare(sandbox("kept", "10.96.1.7:80", 8080))
	r.acked()
	r.expect("fork", 8080, key("kept"))
	r.Board.Declare(kept)
	r.acked()
	if got := r.expect("baseline", 8080, asks, key("kept")); got.Header.Get(translate.RoutedHeader) != "baseline-for=watcher 7%25" {
		t.Errorf("it is routed to %s", got.Header.Get(translate.RoutedHeader))
	}
}

func TestASandboxThatCannotBeReachedFailsVisibly(t *testing.T) {
	notReady := sandbox("slow", "10.96.1.4:80", 8080)
	notReady.NotReady = true
	r := start(t,
		notReady,
		xdstest.Fork{Baseline: customer, Key: "headless", Sandbox: "sb-headless", Port: 8080},
		sandbox("gone", "10.96.1.5:80", 8080),
		sandbox("mute", "10.96.1.6:80", 8080),
	)
	r.must(podnet.ServeAddress(net.ParseIP("10.96.1.5"))) // an address at which nobody listens
	mute := r.fork("10.96.1.6:80")
	go func() {
		for {
			c, err := mute.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
		}
	}()
	for k, reason := range map[string]string{
		"slow": translate.ReasonNotReady, "headless": translate.ReasonNoAddress,
		"gone": translate.ReasonUnreachable, "mute": translate.ReasonReset,
	} {
		t.Run(k, func(t *testing.T) {
			got, err := r.get(8080, key(k))
			if err != nil {
				t.Fatal(err)
			}
			routed := translate.RoutedSandbox + "sb-" + k
			if got.Status != 503 || got.Header.Get(translate.ReasonHeader) != reason || got.Header.Get(translate.RoutedHeader) != routed {
				t.Errorf("got %d, %v, %s", got.Status, got.Header, got.Body)
			}
			sentence := routed + " holds this routing key, and its fork, its workstation or traffic-manager does not answer: upstream connect error"
			if answered := reason == translate.ReasonNotReady || reason == translate.ReasonNoAddress; strings.HasPrefix(got.Body, sentence) == answered {
				t.Errorf("the body is %q", got.Body)
			}
		})
	}
	r.expect("baseline", 8080)

	// The words about a baseline stay Envoy's.
	r.Board.Declare(sandbox("other", "10.96.1.5:80", 8081))
	r.acked()
	if got, err := r.get(8081); err != nil || got.Header.Get(translate.RoutedHeader) != translate.RoutedBaseline || !strings.HasPrefix(got.Body, "upstream connect error") {
		t.Errorf("a baseline that does not listen: %+v, %v", got, err)
	}
}

func TestAPortWithoutAMappingStaysWithTheBaseline(t *testing.T) {
	r := newRig(t)
	r.serveHTTP(r.app(8080), "baseline")
	r.serveHTTP(r.app(8081), "baseline")
	r.serveHTTP(r.fork("10.96.1.7:80"), "fork")
	r.Board.Declare(sandbox("k1", "10.96.1.7:80", 8081))
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	r.expect("baseline", 8080, key("k1"))
	r.expect("fork", 8081, key("k1"))
}

func TestIPv6IsRoutedLikeIPv4(t *testing.T) {
	r := start(t, sandbox("k1", "10.96.1.8:80", 8080))
	r.serveHTTP(r.fork("10.96.1.8:80"), "fork")
	for side, k := range map[string]string{"fork": "k1", "baseline": "unknown"} {
		request, err := http.NewRequest(http.MethodGet, "http://["+r.ipv6+"]:8080/", http.NoBody)
		r.must(err)
		request.Header.Set("baggage", "sd-routing-key="+k)
		got, err := do(http.DefaultTransport, request)
		if err != nil || got.Side != side {
			t.Errorf("key %s: %v, %+v", k, err, got)
		}
	}
}

// still is a view of a table that does not change.
type still struct{ table table.Table }

// Current is serve.View.
func (s still) Current() (table.Table, <-chan struct{}) { return s.table, nil }

// A real Envoy reads each form of header as the parser of routingkey does.
func TestEnvoyReadsRoutingKeysAsTheParserDoes(t *testing.T) {
	keys := map[string]bool{}
	for _, form := range keytest.Forms() {
		keys[form.Key] = true
	}
	r := newRig(t)
	r.serveHTTP(r.app(8080), "baseline")
	facts := []event.Recorded{
		{Pos: event.Pos{Epoch: "e", Seq: 1}, Fact: event.Fact{Data: &factv1.Complete{}}},
		{Pos: event.Pos{Epoch: "e", Seq: 2}, Fact: event.Fact{Data: &factv1.KeyHeadersDeclared{Names: keytest.CustomHeaders()}}},
	}
	for k := range keys {
		if k == "" || !utf8.ValidString(k) {
			continue // no rule has such a key
		}
		address := fmt.Sprintf("10.96.2.%d:80", len(facts))
		f := sandbox(k, address, 8080)
		f.Sandbox = fmt.Sprintf("sb-%d", len(facts))
		observed, declared := f.Facts()
		for _, fact := range []event.Fact{observed, declared} {
			facts = append(facts, event.Recorded{Pos: event.Pos{Epoch: "e", Seq: uint64(len(facts) + 1)}, Fact: fact})
		}
		r.serveHTTP(r.fork(address), k)
	}
	// Keys of any length, which the log would not take: folded here.
	r.serveView(still{table.Table{}.Apply(facts...)})
	r.sidecar()
	r.ready()
	for name, form := range keytest.Forms() {
		t.Run(name, func(t *testing.T) {
			want := form.Key
			if want == "" || !utf8.ValidString(want) {
				want = "baseline"
			}
			for proto, transport := range map[string]http.RoundTripper{"HTTP/1.1": &http.Transport{}, "HTTP/2": http2Only()} {
				got, err := r.over(transport, 8080, form.Lines...)
				if err != nil {
					t.Fatalf("%s: %v", proto, err)
				}
				if got.Side != want {
					t.Errorf("%s: served by %.50q with %d, want %.50q; %.100s", proto, got.Side, got.Status, want, got.Body)
				}
			}
		})
	}
}
