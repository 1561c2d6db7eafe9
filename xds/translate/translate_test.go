package translate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networkv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"pgregory.net/rapid"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/golden"
)

var customer = table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "customer"}

func rule(key, sandbox string, mappings ...table.Mapping) *table.Rule {
	return &table.Rule{
		Declaration: &table.Declaration{RoutingKey: key}, Sandbox: sandbox,
		Serving: &table.Serving{Place: &table.Place{Baseline: customer}, Ready: true, Mappings: mappings},
	}
}

// keeping is a rule that keeps its requests at the baseline. Whether it is ready may make no difference.
func keeping(key, sandbox string, mappings ...table.Mapping) *table.Rule {
	r := rule(key, sandbox, mappings...)
	r.Member = table.Member{Kind: "VirtualWorkload", Namespace: "hotrod", Name: "v"}
	r.Ready = false
	return r
}

func to(port uint32, addresses ...string) table.Mapping {
	m := table.Mapping{WorkloadPort: port}
	for _, address := range addresses {
		m.Destinations = append(m.Destinations, table.Destination{Host: "svc.hotrod.svc", Port: 80, Address: address})
	}
	return m
}

func TestTheRoutesOfAWorkload(t *testing.T) {
	notReady := rule("k3", "slow", to(8081, "10.0.0.3"))
	notReady.Ready = false
	cases := map[string][]*table.Rule{
		"no-rules":             nil,
		"one-rule":             {rule("k1", "feature", to(8081, "10.0.0.1"))},
		"two-ports":            {rule("k1", "feature", to(8081, "10.0.0.1"), to(8082, "fd00::1"))},
		"several-destinations": {rule("k1", "feature", to(8081, "", "10.0.0.2", "10.0.0.3"))},
		"headless":             {rule("k1", "feature", to(8081, "", "None"))},
		"not-ready":            {rule("k1", "feature", to(8081, "10.0.0.1")), notReady},
		"without-a-service":    {rule("k1", "consumer")},
		"kept":                 {rule("k1", "feature", to(8081, "10.0.0.1")), keeping("k2", "watcher", to(8081), to(8082))},
	}
	for name, rules := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := wholeOf(rules...)
			if err != nil {
				t.Fatal(err)
			}
			recorded(t, name, got)
		})
	}
}

// The head contains the custom headers that carry keys, with a part and without.
func TestTheRoutesSayWhichHeadersCarryKeys(t *testing.T) {
	says := heading{tableVersion: "v1", keyHeaders: []string{"x-team", "baggage", "a b"}}
	for name, rules := range map[string][]*table.Rule{"key-headers": {rule("k1", "feature", to(8081, "10.0.0.1"))}, "key-headers-alone": nil} {
		routes, err := headed(says, rules...)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := routes.Whole()
		if err != nil {
			t.Fatal(err)
		}
		recorded(t, name, []Resource{whole})
		plain, err := routesOf(rules...)
		if err != nil {
			t.Fatal(err)
		}
		if plain.Version() == routes.Version() {
			t.Errorf("%s: the version is that of the routes without headers", name)
		}
	}
}

// routesOf translates rules, not in any table.
func routesOf(rules ...*table.Rule) (Translation, error) {
	return headed(heading{tableVersion: "v1"}, rules...)
}

func headed(says heading, rules ...*table.Rule) (Translation, error) {
	empty, err := emptyRoutes(customer, says)
	if err != nil {
		return Translation{}, err
	}
	var all edits
	for _, r := range rules {
		if err := all.add(r); err != nil {
			return Translation{}, err
		}
	}
	return empty.with(&all)
}

func wholeOf(rules ...*table.Rule) ([]Resource, error) {
	routes, err := routesOf(rules...)
	if err != nil {
		return nil, err
	}
	whole, err := routes.Whole()
	return []Resource{whole}, err
}

func recorded(t *testing.T, name string, got []Resource) {
	t.Helper()
	var text bytes.Buffer
	for _, r := range got {
		loose, err := protojson.Marshal(r.Any)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "// %s %s, version %s\n", r.Type, r.Name, r.Version)
		if err := json.Indent(&text, loose, "", "  "); err != nil {
			t.Fatal(err)
		}
		text.WriteByte('\n')
	}
	golden.Compare(t, filepath.Join("testdata", name+".golden"), text.String())
}

func TestTheVersionChangesExactlyWithTheContent(t *testing.T) {
	of := func(rules ...*table.Rule) Resource {
		got, err := wholeOf(rules...)
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	a, b := rule("k1", "a", to(80, "10.0.0.1")), rule("k2", "b", to(80, "10.0.0.2"))
	if of(a, b).Version != of(b, a).Version {
		t.Error("the order of the rules changes the version")
	}
	if of(a).Version == of(a, b).Version || of(a).Version == of(rule("k1", "a", to(80, "10.0.0.9"))).Version {
		t.Error("other content has the same version")
	}
}

// outcome is what a request meets.
type outcome struct{ cluster, destination, reason, routed string }

// expected returns from the rules, one after the other, what a request meets.
func expected(rules []*table.Rule, port uint32, key string) outcome {
	for _, r := range rules {
		for _, m := range r.Mappings {
			if r.RoutingKey != key || m.WorkloadPort != port {
				continue
			}
			if r.Member.Kind == "VirtualWorkload" {
				return outcome{cluster: "app", routed: "baseline-for=" + r.Sandbox}
			}
			routed := "sandbox=" + r.Sandbox
			if !r.Ready {
				return outcome{reason: ReasonNotReady, routed: routed}
			}
			for _, d := range m.Destinations {
				if d.Address != "" {
					return outcome{cluster: "forks", destination: d.Address + ":80", routed: routed}
				}
			}
			return outcome{reason: ReasonNoAddress, routed: routed}
		}
	}
	return outcome{cluster: "app", routed: "baseline"}
}

// interpret does with a route configuration what Envoy does.
func interpret(t *rapid.T, r Resource, value string) outcome {
	config := &routev3.RouteConfiguration{}
	if err := r.Any.UnmarshalTo(config); err != nil {
		t.Fatal(err)
	}
	if err := config.ValidateAll(); err != nil {
		t.Fatalf("Envoy's own rules are broken: %v", err)
	}
	if !slices.Contains(config.VirtualHosts[0].RequestHeadersToRemove, DestinationHeader) {
		t.Fatal("a client's internal header reaches a server")
	}
	matcher := config.VirtualHosts[0].Matcher
	match := matcher.OnNoMatch
	if tree := matcher.GetMatcherTree(); tree != nil {
		input := &networkv3.FilterStateInput{}
		if err := tree.Input.TypedConfig.UnmarshalTo(input); err != nil || input.Key != FilterStateKey {
			t.Fatalf("the map is looked up by %v, %v", tree.Input, err)
		}
		if m, ok := tree.GetExactMatchMap().Map[value]; ok {
			match = m
		}
	}
	return meet(t, match)
}

// meet follows a match that is again a matcher to its end, where all must reach the same
// destination: only the filters on the path may differ.
func meet(t *rapid.T, match *matcherv3.Matcher_OnMatch) outcome {
	if inner := match.GetMatcher(); inner != nil {
		got := meet(t, inner.OnNoMatch)
		for _, m := range inner.GetMatcherList().Matchers {
			if also := meet(t, m.OnMatch); also != got {
				t.Fatalf("%v leads to %+v, and without it %+v", m.Predicate, also, got)
			}
		}
		return got
	}
	route := &routev3.Route{}
	if err := match.GetAction().TypedConfig.UnmarshalTo(route); err != nil {
		t.Fatal(err)
	}
	if route.Match.GetPrefix() != "" || route.Match.PathSpecifier == nil {
		t.Fatalf("the route does not match every path: %v", route.Match)
	}
	got := outcome{cluster: route.GetRoute().GetCluster(), routed: route.Name}
	got.destination = route.GetMetadata().GetFilterMetadata()[DestinationNamespace].GetFields()[DestinationKey].GetStringValue()
	for _, h := range route.ResponseHeadersToAdd {
		if h.Header.Key == ReasonHeader {
			got.reason = h.Header.Value
		}
	}
	if got.reason != "" && route.GetDirectResponse().GetStatus() != 503 {
		t.Fatalf("a refusal with status %d", route.GetDirectResponse().GetStatus())
	}
	return got
}

func TestEveryRuleIsFoundAndNothingElse(t *testing.T) {
	key := rapid.StringMatching(`[a-zA-Z0-9/.*%é]{1,4}`)
	port := rapid.SampledFrom([]uint32{1, 18, 80, 8080, 65535})
	address := rapid.SampledFrom([]string{"", "10.0.0.1", "10.0.0.2"})
	mapping := rapid.Custom(func(t *rapid.T) table.Mapping {
		return to(port.Draw(t, "port"), rapid.SliceOfN(address, 0, 2).Draw(t, "addresses")...)
	})
	rapid.Check(t, func(t *rapid.T) {
		byKey := map[string]*table.Rule{}
		for _, k := range rapid.SliceOfN(key, 0, 6).Draw(t, "keys") {
			mappings := rapid.SliceOfNDistinct(mapping, 0, 3, func(m table.Mapping) uint32 { return m.WorkloadPort }).Draw(t, "mappings")
			byKey[k] = rule(k, "sandbox", mappings...)
			byKey[k].Ready = rapid.Bool().Draw(t, "ready")
			byKey[k].Member.Kind = rapid.SampledFrom([]string{"ForkedWorkload", "VirtualWorkload"}).Draw(t, "member")
		}
		rules := slices.Collect(maps.Values(byKey))
		got, err := wholeOf(rules...)
		if err != nil {
			t.Fatal(err)
		}
		asked := append(slices.Collect(maps.Keys(byKey)), "", key.Draw(t, "some other key"))
		for _, k := range asked {
			for _, p := range []uint32{1, 18, 80, 8080, 65535, 443} {
				want, have := expected(rules, p, k), interpret(t, got[0], MatchValue(p, k))
				if want != have {
					t.Fatalf("key %q, port %d: %+v, want %+v", k, p, have, want)
				}
			}
		}
	})
}

// Envoy reads header values as formats, and refuses the whole configuration, of
// all sandboxes, when one is not in order.
func TestNoNameOfASandboxSpoilsTheRoutesOfOthers(t *testing.T) {
	for sandbox, want := range map[string]string{
		"100%":       "sandbox=100%25",
		"%REQ(x)%":   "sandbox=%25REQ(x)%25",
		"two\nlines": "sandbox=two%0Alines",
		"blå":        "sandbox=bl%C3%A5",
		"feature 7":  "sandbox=feature 7",
	} {
		r := rule("k1", sandbox, to(8081, "10.0.0.1"))
		r.Ready = false
		got := routeOf(r, r.Mappings[0])
		var routed string
		for _, h := range got.ResponseHeadersToAdd {
			if h.Header.Key == RoutedHeader {
				routed = h.Header.Value
			}
		}
		if got.Name != want || routed != strings.ReplaceAll(want, "%", "%%") {
			t.Errorf("sandbox %q: the route is called %q with header %q, want %q", sandbox, got.Name, routed, want)
		}
	}
}
