package keeper_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	envoymatcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"switchyard.dev/xds/translate"
)

// forged is a head and one part, with the entries of all that there are, to be changed.
type forged struct {
	head, part *routev3.VirtualHost
	entries    map[string]*matcherv3.Matcher_OnMatch
}

// forge reads the routes of the board's table.
func (s *routes) forge() *forged {
	s.r.t.Helper()
	newest, _ := s.r.Board.View.Current()
	made, err := translate.Translate(newest, customer)
	s.r.must(err)
	f := &forged{head: &routev3.VirtualHost{}, part: &routev3.VirtualHost{}}
	s.r.must(made.Head().Any.UnmarshalTo(f.head))
	s.r.must(made.Parts()[0].Any.UnmarshalTo(f.part))
	f.entries = f.part.GetMatcher().GetMatcherTree().GetExactMatchMap().GetMap()
	return f
}

// offerForged serves routes that no route server of the operator produces.
func (s *routes) offerForged(f *forged, part string) {
	s.r.t.Helper()
	head := s.resource(translate.HeadName(customer), f.head)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = []translate.Resource{s.resource(part, f.part), head}
	close(s.changed)
	s.changed = make(chan struct{})
}

// A server that answers to the route server's name can send any routes; it receives no request
// without a key by that, and none with one is misrouted.
func TestForgedRoutesTakeNoRequests(t *testing.T) {
	const to = "10.96.6.1:80"
	for name, c := range map[string]struct {
		forge func(r *rig, f *forged, way *matcherv3.Matcher_OnMatch)
		says  string
	}{
		"what has no match": {func(_ *rig, f *forged, way *matcherv3.Matcher_OnMatch) {
			f.head.Matcher.OnNoMatch = way
		}, `requests without a routing key would go to \"forks\"`},
		"what has no key": {func(_ *rig, f *forged, way *matcherv3.Matcher_OnMatch) {
			f.entries["8080/"] = way
		}, "is no port and routing key"},
		"by their path": {func(r *rig, f *forged, way *matcherv3.Matcher_OnMatch) {
			path, err := anypb.New(&envoymatcherv3.HttpRequestHeaderMatchInput{HeaderName: ":path"})
			r.must(err)
			f.part.Matcher.GetMatcherTree().Input = &xdscorev3.TypedExtensionConfig{Name: "route", TypedConfig: path}
			f.entries["8080/k2"] = way
		}, "its map is looked up by type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.serveHTTP(r.app(8080), "baseline")
			r.serveHTTP(r.fork(to), "fork")
			r.Board.Complete()
			r.Board.Declare(sandbox("k1", to, 8080))
			served := r.serveRoutes()
			version := served.offerTable("")
			process := r.sidecar()
			r.ready()
			r.answered(version)
			r.expect("fork", 8080, key("k1"))

			f := served.forge()
			way := proto.CloneOf(slices.Collect(maps.Values(f.entries))[0])
			c.forge(r, f, way)
			served.offerForged(f, r.partNames(served)[0])
			r.eventually("it is refused", func() error {
				if log, err := os.ReadFile(r.logFile()); err != nil || !strings.Contains(string(log), c.says) {
					return fmt.Errorf("the log does not say %q: %v", c.says, err)
				}
				return nil
			})
			r.expect("baseline", 8080)
			r.expect("baseline", 8080, [2]string{"baggage", "a=b"})
			r.expect("fork", 8080, key("k1"))

			// Envoy starts again with the routes that were good.
			if out, err := exec.Command("pkill", "-9", "-P", fmt.Sprint(process.Process.Pid)).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			r.eventually("it serves again", func() error {
				_, err := r.get(8080)
				return err
			})
			r.expect("fork", 8080, key("k1"))
			r.expect("baseline", 8080)
		})
	}
}

// partNames returns the names of the parts that are served.
func (r *rig) partNames(served *routes) []string {
	served.mu.Lock()
	defer served.mu.Unlock()
	var names []string
	for _, p := range served.served {
		if p.Name != translate.HeadName(customer) {
			names = append(names, p.Name)
		}
	}
	return names
}

// A route of another form is withheld from Envoy, and its previous one stays.
func TestARouteOfAnotherFormIsKeptFromEnvoy(t *testing.T) {
	r := newRig(t)
	r.serveHTTP(r.app(8080), "baseline")
	r.serveHTTP(r.fork("10.96.6.1:80"), "fork")
	r.Board.Complete()
	r.Board.Declare(sandbox("k1", "10.96.6.1:80", 8080))
	served := r.serveRoutes()
	served.offerTable("")
	r.sidecar()
	r.ready()
	r.answered(served.offerTable(""))

	f := served.forge()
	for _, match := range f.entries {
		route := &routev3.Route{}
		r.must(match.GetAction().TypedConfig.UnmarshalTo(route))
		route.Action = &routev3.Route_Redirect{Redirect: &routev3.RedirectAction{HostRedirect: "elsewhere.example"}}
		r.must(match.GetAction().TypedConfig.MarshalFrom(route))
	}
	r.answered(served.offer(f.head, served.resource(r.partNames(served)[0], f.part)), "sb-k1", "none that this sidecar takes")
	r.expect("fork", 8080, key("k1"))
	r.expect("baseline", 8080)
}
