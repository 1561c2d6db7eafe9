package keeper_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"switchyard.dev/tests/sidecar"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
)

// routes are served by a real server to any client, to prove what happens to routes that the
// route server would not make.
type routes struct {
	r *rig

	mu      sync.Mutex
	served  []translate.Resource
	changed chan struct{}
	// refusals are when heads were refused, by version.
	refusals map[string][]time.Time
}

// serveRoutes starts an xDS server that serves nothing yet.
func (r *rig) serveRoutes() *routes {
	r.t.Helper()
	served := &routes{r: r, changed: make(chan struct{}), refusals: map[string][]time.Time{}}
	var err error
	r.XDS, r.stopXDS, err = sidecar.Serve(serve.Config{Sessions: served}, net.JoinHostPort(r.node, xdsPort))
	r.must(err)
	r.t.Cleanup(r.stopXDS)
	return served
}

// Open accepts any client.
func (s *routes) Open(context.Context, string) (serve.Session, error) {
	return serve.Session{
		Peer: serve.Peer{UID: "x"}, Source: s, Allows: func(string, string) error { return nil },
		Receipt: func(_, name string) bool { return name == translate.HeadName(customer) },
		Settled: s.settled,
	}, nil
}

func (s *routes) settled(_ serve.Peer, all []serve.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range all {
		if st.Name == translate.HeadName(customer) && st.Rejected != "" && strings.Contains(st.Error, "do not make the whole") {
			s.refusals[st.Rejected] = append(s.refusals[st.Rejected], time.Now())
		}
	}
}

// refused returns when a head was refused because the parts are not its own.
func (s *routes) refused(version string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refusals[version])
}

// mislabel serves the head with another version.
func (s *routes) mislabel(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = slices.Clone(s.served)
	s.served[len(s.served)-1].Version = version
	close(s.changed)
	s.changed = make(chan struct{})
}

// Resources is serve.Source.
func (s *routes) Resources() ([]translate.Resource, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served, s.changed
}

func (s *routes) resource(name string, host *routev3.VirtualHost) translate.Resource {
	s.r.t.Helper()
	packed := &anypb.Any{}
	s.r.must(anypb.MarshalFrom(packed, host, proto.MarshalOptions{Deterministic: true}))
	hash := sha256.Sum256(packed.Value)
	return translate.Resource{Type: translate.PartType, Name: name, Version: hex.EncodeToString(hash[:16]), Any: packed}
}

// offer serves a head and parts from now on, and returns the version of the whole.
func (s *routes) offer(head *routev3.VirtualHost, parts ...translate.Resource) string {
	s.r.t.Helper()
	first := s.resource(translate.HeadName(customer), head)
	read, err := translate.ReadHead(customer, first)
	s.r.must(err)
	var all translate.Parts
	for _, p := range parts {
		i, part, err := translate.ReadPart(customer, p)
		s.r.must(err)
		all[i] = part
	}
	whole, err := translate.Compose(read, &all)
	s.r.must(err)
	first.Version = whole.Version
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = append(append([]translate.Resource{}, parts...), first)
	close(s.changed)
	s.changed = make(chan struct{})
	return whole.Version
}

// offerTable serves the routes of the board's table from now on. Those of one
// sandbox are spoilt, so that Envoy refuses them.
func (s *routes) offerTable(spoilt string) string {
	s.r.t.Helper()
	newest, _ := s.r.Board.View.Current()
	made, err := translate.Translate(newest, customer)
	s.r.must(err)
	head := &routev3.VirtualHost{}
	s.r.must(made.Head().Any.UnmarshalTo(head))
	parts := made.Parts()
	for i, p := range parts {
		host := &routev3.VirtualHost{}
		s.r.must(p.Any.UnmarshalTo(host))
		if s.spoil(host, spoilt) {
			parts[i] = s.resource(p.Name, host)
		}
	}
	return s.offer(head, parts...)
}

// beside returns the match values that are in one part with another.
func (s *routes) beside(value string) map[string]bool {
	s.r.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.served {
		host := &routev3.VirtualHost{}
		s.r.must(p.Any.UnmarshalTo(host))
		entries := host.GetMatcher().GetMatcherTree().GetExactMatchMap().GetMap()
		if _, found := entries[value]; !found {
			continue
		}
		all := map[string]bool{}
		for other := range entries {
			all[other] = true
		}
		return all
	}
	s.r.t.Fatalf("%q is in no part", value)
	return nil
}

// spoil adds a header to the routes of a sandbox that the sidecar accepts, with a format that
// Envoy refuses.
func (s *routes) spoil(host *routev3.VirtualHost, sandbox string) (found bool) {
	for _, match := range host.GetMatcher().GetMatcherTree().GetExactMatchMap().GetMap() {
		route := &routev3.Route{}
		s.r.must(match.GetAction().TypedConfig.UnmarshalTo(route))
		if route.Name != translate.RoutedSandbox+sandbox {
			continue
		}
		route.ResponseHeadersToAdd = append(route.ResponseHeadersToAdd, &corev3.HeaderValueOption{
			Header: &corev3.HeaderValue{Key: translate.RoutedHeader, Value: "%NO_SUCH_COMMAND%"},
		})
		s.r.must(match.GetAction().TypedConfig.MarshalFrom(route))
		found = true
	}
	return found
}

// answered waits until the sidecar has accepted a version, or refused it for a
// reason in which these words are.
func (r *rig) answered(version string, words ...string) {
	r.t.Helper()
	r.eventually("the sidecar has answered", func() error {
		acks := r.XDS.Acks()
		if len(acks) != 1 {
			return fmt.Errorf("%d acknowledgements", len(acks))
		}
		got := acks[0].Acked
		if len(words) > 0 {
			got = acks[0].Rejected
		}
		for _, w := range words {
			if !strings.Contains(acks[0].Error, w) {
				return fmt.Errorf("it says %q", acks[0].Error)
			}
		}
		if got != version || len(words) == 0 && acks[0].Error != "" {
			return fmt.Errorf("%+v, want %s", acks[0], version)
		}
		return nil
	})
}

// refuses expects 503 and a reason for a key.
func (r *rig) refuses(reason, routingKey string) {
	r.t.Helper()
	r.eventually("the key is refused", func() error {
		got, err := r.get(8080, key(routingKey))
		if err == nil && (got.Status != http.StatusServiceUnavailable || got.Header.Get(translate.ReasonHeader) != reason) {
			err = fmt.Errorf("%d from %s, reason %q", got.Status, got.Side, got.Header.Get(translate.ReasonHeader))
		}
		return err
	})
}

func TestAPartThatEnvoyRefusesIsKeptFromItAndTheOthersAreNot(t *testing.T) {
	r := newRig(t)
	r.serveHTTP(r.app(8080), "baseline")
	r.serveHTTP(r.fork("10.96.6.1:80"), "fork")
	r.serveHTTP(r.fork("10.96.6.2:80"), "other")
	fork := func(key, to string) { r.Board.Declare(sandbox(key, to, 8080)) }
	r.Board.Complete()
	fork("k1", "10.96.6.1:80")
	served := r.serveRoutes()
	served.offerTable("")
	r.sidecar()
	r.ready()
	r.answered(served.offerTable(""))
	r.expect("fork", 8080, key("k1"))

	// Many parts change at once, and one of them is bad: the others are in use.
	for i := range 12 {
		fork(fmt.Sprintf("n%d", i), "10.96.6.1:80")
	}
	fork("bad", "10.96.6.1:80")
	r.answered(served.offerTable("sb-bad"), "sb-bad", "NO_SUCH_COMMAND")
	inUse, beside := 0, served.beside("8080/bad")
	for i := range 12 {
		if k := fmt.Sprintf("n%d", i); beside["8080/"+k] {
			r.refuses(translate.ReasonRefused, k) // new, and in the same part
		} else {
			r.expect("fork", 8080, key(k))
			inUse++
		}
	}
	if inUse < 6 {
		t.Errorf("only %d of 12 new keys are in use", inUse)
	}
	r.expect("fork", 8080, key("k1"))
	r.expect("baseline", 8080)
	r.refuses(translate.ReasonRefused, "bad")

	// They go on being updated, also after the route server was away.
	fork("k1", "10.96.6.2:80")
	r.answered(served.offerTable("sb-bad"), "sb-bad")
	r.expect("other", 8080, key("k1"))
	r.refuses(translate.ReasonRefused, "bad")
	r.stopXDS()
	served = r.serveRoutes()
	r.answered(served.offerTable("sb-bad"), "sb-bad")
	r.refuses(translate.ReasonRefused, "bad")

	// The repaired routes are in use, and all is acknowledged.
	r.answered(served.offerTable(""))
	r.expect("fork", 8080, key("bad"))

	// One part changes and is bad: the route that Envoy had for it stays.
	fork("bad", "10.96.6.2:80")
	r.answered(served.offerTable("sb-bad"), "sb-bad")
	r.expect("fork", 8080, key("bad"))
	r.answered(served.offerTable(""))
	r.expect("other", 8080, key("bad"))
}

// A sidecar with one bad place in its first routes has never had good ones.
func TestAKnownKeyIsNeverTheBaselinesBecauseItsRoutesAreBad(t *testing.T) {
	r := newRig(t)
	r.serveHTTP(r.app(8080), "baseline")
	r.serveHTTP(r.fork("10.96.6.3:80"), "fork")
	r.Board.Complete()
	for i := range 8 {
		r.Board.Declare(sandbox(fmt.Sprintf("k%d", i), "10.96.6.3:80", 8080))
	}
	served := r.serveRoutes()
	version := served.offerTable("sb-k3")
	r.sidecar()
	r.ready()
	r.answered(version, "sb-k3")
	beside := served.beside("8080/k3")
	for i := range 8 {
		if k := fmt.Sprintf("k%d", i); !beside["8080/"+k] {
			r.expect("fork", 8080, key(k))
		}
	}
	r.refuses(translate.ReasonRefused, "k3")
}

// Parts that do not make the whole of their head are not used; they are requested again, with
// growing delays.
func TestPartsThatDoNotMakeTheWholeAreAskedForAnewAfterAPause(t *testing.T) {
	r := newRig(t)
	r.serveHTTP(r.app(8080), "baseline")
	r.serveHTTP(r.fork("10.96.6.4:80"), "fork")
	r.Board.Complete()
	r.Board.Declare(sandbox("k1", "10.96.6.4:80", 8080))
	served := r.serveRoutes()
	served.offerTable("")
	r.sidecar()
	r.ready()
	r.answered(served.offerTable(""))

	served.mislabel("wrong")
	r.eventually("it is refused four times", func() error {
		if n := len(served.refused("wrong")); n < 4 {
			return fmt.Errorf("%d times", n)
		}
		return nil
	})
	all := served.refused("wrong")
	if took := all[3].Sub(all[0]); took < 3*retryLeast {
		t.Errorf("it was asked for anew three times within %v", took)
	}
	r.expect("fork", 8080, key("k1")) // what it had stays
	r.Board.Declare(sandbox("k2", "10.96.6.4:80", 8080))
	r.answered(served.offerTable(""))
	r.expect("fork", 8080, key("k2"))
}

// retryLeast is less than the least pause before a stream is opened again.
const retryLeast = 40 * time.Millisecond
