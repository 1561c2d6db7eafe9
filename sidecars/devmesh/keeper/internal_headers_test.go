package keeper_test

import (
	"net/http"
	"testing"
	"time"

	"switchyard.dev/xds/translate"
)

// Headers that the proxy uses inside cannot be set by a client, nor seen by an application.
func TestAClientCannotSayWhatTheProxySaysToItself(t *testing.T) {
	r := start(t)
	for name, transport := range map[string]http.RoundTripper{"h1": http.DefaultTransport, "h2": http2Only()} {
		for _, c := range []struct {
			says [][2]string
			want string
		}{
			{[][2]string{{"x-sd-forwarded-proto", "ftp"}}, ""},
			{[][2]string{{"x-sd-forwarded-proto", "ftp"}, {"x-forwarded-proto", "https"}}, "https"},
			{nil, ""},
		} {
			got, err := r.over(transport, 8080, c.says...)
			if err != nil || got.Side != "baseline" {
				t.Fatalf("%s, %v: %+v, %v", name, c.says, got, err)
			}
			if seen := got.echo.Header.Get("X-Forwarded-Proto"); seen != c.want {
				t.Errorf("%s, %v: the application sees x-forwarded-proto %q, want %q", name, c.says, seen, c.want)
			}
			if seen, there := got.echo.Header["X-Sd-Forwarded-Proto"]; there {
				t.Errorf("%s, %v: the application sees x-sd-forwarded-proto %q", name, c.says, seen)
			}
		}
	}
}

// Only the route decides where a request goes: neither the header that has destinations in parts, nor one that
// Envoy reads by default, nor one with the name of the metadata or of the filter state.
func TestNoClientChoosesTheDestination(t *testing.T) {
	const forkAddress, otherAddress = "10.96.8.1:80", "10.96.8.2:80"
	r := start(t, sandbox("k1", forkAddress, 8080), sandbox("k2", otherAddress, 8080))
	r.serveHTTP(r.fork(forkAddress), "fork")
	r.serveHTTP(r.fork(otherAddress), "other")
	for name, transport := range map[string]http.RoundTripper{"h1": http.DefaultTransport, "h2": http2Only()} {
		for k, want := range map[string]string{"k1": "fork", "k2": "other", "nobody": "baseline"} {
			for _, address := range []string{forkAddress, otherAddress, "", "none"} {
				for _, header := range []string{
					translate.DestinationHeader, "x-envoy-original-dst-host", "destination",
					"envoy.network.transport_socket.original_dst_address",
				} {
					got, err := r.over(transport, 8080, key(k), [2]string{header, address})
					if err != nil || got.Side != want {
						t.Errorf("%s, key %s, %s %q: %q, %v; want %q", name, k, header, address, got.Side, err, want)
					}
				}
			}
		}
	}
}

// A fork may have acted on a request that it was sent: no client can have it sent again.
func TestNoClientHasARequestToAForkSentAgain(t *testing.T) {
	r := newRig(t)
	r.serveHTTP(r.app(8080), "baseline")
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	failing := &http.Server{ReadHeaderTimeout: patience, Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(20 * time.Millisecond) // longer than a client may ask for each try to last
		w.WriteHeader(http.StatusServiceUnavailable)
	})}
	fork := r.fork("10.96.8.1:80")
	go func() { _ = failing.Serve(fork) }()
	t.Cleanup(func() { _ = failing.Close() })
	r.Board.Declare(sandbox("k1", "10.96.8.1:80", 8080))
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	r.acked()
	for _, from := range []string{"10.0.0.1", "127.0.0.1", "203.0.113.1"} {
		for name, transport := range map[string]http.RoundTripper{"h1": http.DefaultTransport, "h2": http2Only()} {
			got, err := r.over(transport, 8080, key("k1"), [2]string{"x-forwarded-for", from}, [2]string{"x-envoy-internal", "true"},
				[2]string{"x-envoy-retry-on", "5xx,reset,connect-failure"}, [2]string{"x-envoy-retry-grpc-on", "unavailable"}, [2]string{"x-envoy-max-retries", "3"},
				[2]string{"x-envoy-hedge-on-per-try-timeout", "true"}, [2]string{"x-envoy-upstream-rq-per-try-timeout-ms", "5"})
			if err != nil || got.Status != http.StatusServiceUnavailable {
				t.Errorf("from %s, %s: %d by %q, %v; want the fork's 503", from, name, got.Status, got.Side, err)
			}
		}
	}
}
