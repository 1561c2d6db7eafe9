package keeper_test

import (
	"context"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/xds/routingkey"
	"switchyard.dev/xds/routingkey/keytest"
)

// startEdge returns a rig with the sidecar of an edge, with a fork for the key k1.
func startEdge(t *testing.T) *rig {
	t.Helper()
	t.Setenv(devmesh.EnvEdge, devmesh.EdgeYes)
	r := start(t, sandbox("k1", "10.96.1.51:80", 8080))
	r.serveHTTP(r.fork("10.96.1.51:80"), "fork")
	return r
}

// afterEdge is what an edge leaves of a list header, as one line.
func afterEdge(lines []string) string {
	var kept []string
	for entry := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		name, _, _ := strings.Cut(entry, "=")
		decoded, err := url.PathUnescape(name)
		if err != nil {
			decoded = name
		}
		if !strings.Contains(decoded, routingkey.Member) {
			kept = append(kept, entry)
		}
	}
	return strings.Join(kept, ",")
}

// checkEdge checks that a request with these lines reached the baseline without a key, and with
// everything else.
func checkEdge(t *testing.T, got answer, lines [][2]string) {
	t.Helper()
	if got.Status != http.StatusOK || got.Side != "baseline" {
		t.Fatalf("%.200q: served by %q with %d", lines, got.Side, got.Status)
	}
	sent := http.Header{}
	for _, line := range lines {
		sent.Add(line[0], line[1])
	}
	for _, name := range []string{"Baggage", "Tracestate"} {
		want := string([]rune(afterEdge(sent[name]))) // the application answers in JSON, which has no other bytes
		if seen := strings.Join(got.echo.Header[name], ","); seen != want {
			t.Errorf("%.200q: the application sees %s %.200q, want %.200q", lines, name, seen, want)
		}
	}
	for _, name := range append(keytest.CustomHeaders(), "Sd-Explain") {
		if seen, there := got.echo.Header[textproto.CanonicalMIMEHeaderKey(name)]; there {
			t.Errorf("%.200q: the application sees %s %q", lines, name, seen)
		}
	}
	if routed := got.Header.Get("Sd-Routed"); routed != "" {
		t.Errorf("%.200q: the answer explains itself: %q", lines, routed)
	}
}

func TestAnEdgeDropsRoutingKeys(t *testing.T) {
	r := startEdge(t)
	forms := keytest.Forms()
	for name, lines := range map[string][][2]string{
		"only others":               {{"baggage", "a=1 ; p=%20,b=%"}, {"tracestate", "x=1, y=2"}},
		"in front of others":        {{"baggage", "sd-routing-key=k1,a=1;p=q, b=2"}},
		"between others":            {{"baggage", "a=1,sd-routing-key=k1;p=q,b=2"}, {"tracestate", "x=1,sd-routing-key=k1,y=2"}},
		"behind others":             {{"baggage", "a=1,\tsd-routing-key\t= k1"}},
		"beside what it spares":     {{"baggage", "a=sd-routing-key,b=1;sd-routing-key=k1"}, {"x-teams", "k1"}},
		"in all places, explained":  {key("k1"), {"tracestate", "sd-routing-key=k1"}, {"X-Team", "k1"}, {"x-other", "k1"}, {"sd-explain", "1"}},
		"encoded":                   {{"baggage", "a=1,sd%2Drouting-key=k1,b=2"}},
		"behind white space unseen": {{"baggage", "a=1,\u00a0sd-routing-key=k1"}},
	} {
		forms[name] = keytest.Form{Lines: lines}
	}
	two := http2Only()
	defer two.CloseIdleConnections()
	for name, form := range forms {
		for proto, transport := range map[string]http.RoundTripper{"HTTP/1.1": http.DefaultTransport, "HTTP/2": two} {
			t.Run(name+" over "+proto, func(t *testing.T) {
				got, err := r.over(transport, 8080, form.Lines...)
				if err != nil {
					t.Fatal(err)
				}
				checkEdge(t, got, form.Lines)
			})
		}
	}
}

// Names that are decoded by one library after another; and lists that take long to read.
func TestAnEdgeDropsListsThatCannotBeReadWithinBounds(t *testing.T) {
	r := startEdge(t)
	for name, c := range map[string]struct{ list, want string }{
		"encoded twice":                  {"a=1,sd%252Drouting-key=k1", "a=1"},
		"encoded more often than anyone": {"a=1,sd%" + strings.Repeat("25", 20) + "2Drouting-key=k1", "a=1"},
		"as hard to read as may be":      {strings.Repeat("%,", 32_000) + "b=2", strings.Repeat("%,", 32_000) + "b=2"},
		"long, without a key":            {strings.Repeat("a=1,", 50_000) + "b=2", strings.Repeat("a=1,", 50_000) + "b=2"},
		"long, with a key":               {strings.Repeat("a=1,", 50_000) + "sd-routing-key=k1", ""},
	} {
		began := time.Now()
		got := r.expect("baseline", 8080, [2]string{"baggage", c.list})
		if seen := got.echo.Header.Get("Baggage"); seen != c.want {
			t.Errorf("%s: the application sees %.100q, want %.100q", name, seen, c.want)
		}
		t.Logf("%s: %v", name, time.Since(began))
	}
}

// A client that is silent at first takes another way to the routes.
func TestAnEdgeDropsTheKeysOfLateRequests(t *testing.T) {
	r := startEdge(t)
	slow := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		time.Sleep(200 * time.Millisecond)
		return c, err
	}}
	defer slow.CloseIdleConnections()
	lines := [][2]string{key("k1"), {"x-team", "k1"}, {"sd-explain", "1"}}
	got, err := r.over(slow, 8080, lines...)
	r.must(err)
	checkEdge(t, got, lines)
}

// The routes of an edge are kept on disk as others are, and fitted when they are read.
func TestAnEdgeThatStartsAloneDropsCustomHeadersAsBefore(t *testing.T) {
	t.Setenv(devmesh.EnvEdge, devmesh.EdgeYes)
	r := startAlone(t, func(r *rig) { r.Board.Declare(sandbox("k1", "10.96.1.52:80", 8080)) })
	lines := [][2]string{key("k1"), {"x-team", "k1"}}
	checkEdge(t, r.expect("baseline", 8080, lines...), lines)
}
