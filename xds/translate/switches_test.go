package translate

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	headertometadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_to_metadata/v3"
	envoymatcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"

	"switchyard.dev/xds/routingkey"
)

// A condition that is narrower than a key would send requests to the baseline without notice.
func TestEveryHeaderThatCarriesKeysSwitchesTheirFiltersOn(t *testing.T) {
	const anything = `\C+`
	ours := []string{"baggage has " + routingkey.Member, "tracestate has " + routingkey.Member}
	newer := headWith(t, nil)
	config := KeyExtraction(nil)
	config.RequestRules[0].OnHeaderPresent.RegexValueRewrite.Pattern.Regex += "|x"
	newer.TypedPerFilterConfig = map[string]*anypb.Any{KeyFilter: anyOfMessage(t, config)}
	for name, c := range map[string]struct {
		head *routev3.VirtualHost
		want []string
	}{
		"none of its own": {headWith(t, nil), ours},
		"two of its own":  {headWith(t, []string{"X-Team", "x-other"}), append(slices.Clone(ours), "x-team is "+anything, "x-other is "+anything)},
		"another pattern": {newer, ours},
	} {
		got, on := lastForm(t, c.head)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, filter := range []string{KeyFilter, MatchFilter} {
			if !on(filter) {
				t.Errorf("%s: they do not switch on %s", name, filter)
			}
		}
	}
}

// A request that reaches the route of a sandbox without its destination noted would go to the baseline.
func TestDestinationsAreNotedWhereverKeysAreMatched(t *testing.T) {
	for _, custom := range [][]string{nil, {"x-team"}} {
		host, err := hostOf(heading{keyHeaders: custom})
		if err != nil {
			t.Fatal(err)
		}
		if host.TypedPerFilterConfig[DestinationFilter] == nil {
			t.Fatal("the virtual host does not configure the filter")
		}
		inner := host.Matcher.OnNoMatch.GetMatcher()
		if off := formOf(t, inner.OnNoMatch).TypedPerFilterConfig[DestinationFilter]; off == nil {
			t.Error("requests without a key pay for the filter")
		}
		for _, m := range inner.GetMatcherList().Matchers {
			form := formOf(t, m.OnMatch).TypedPerFilterConfig
			if form[MatchFilter] == nil || form[DestinationFilter] != nil {
				t.Errorf("%v matches keys: %v, with its own setting of destinations: %v", m.Predicate, form[MatchFilter], form[DestinationFilter])
			}
		}
	}
}

func formOf(t *testing.T, m *matcherv3.Matcher_OnMatch) *routev3.Route {
	t.Helper()
	route := &routev3.Route{}
	if err := m.GetAction().TypedConfig.UnmarshalTo(route); err != nil {
		t.Fatal(err)
	}
	return route
}

// Sidecars of earlier releases take the expressions of a head as they are, and not more than
// 100 steps of them.
func TestHeadsHaveExpressionsThatEverySidecarTakes(t *testing.T) {
	custom := []string{"x-team"}
	composed, err := hostOf(heading{keyHeaders: custom})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		host *routev3.VirtualHost
		of   func(routingkey.Extraction) string
	}{
		"sent":     {headWith(t, custom), func(e routingkey.Extraction) string { return e.Short }},
		"composed": {composed, func(e routingkey.Extraction) string { return e.Pattern }},
	} {
		config := &headertometadatav3.Config{}
		if err := c.host.TypedPerFilterConfig[KeyFilter].UnmarshalTo(config); err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, rule := range config.RequestRules {
			got = append(got, rule.OnHeaderPresent.RegexValueRewrite.Pattern.Regex)
		}
		for _, e := range slices.Backward(routingkey.Extractions(custom)) {
			want = append(want, c.of(e))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What an earlier release left on disk has no forms, or others.
func TestRoutesOfAnotherReleaseAreFittedToThisOne(t *testing.T) {
	whole, err := wholeOf(rule("k1", "feature", to(8080, "10.0.0.1")))
	if err != nil {
		t.Fatal(err)
	}
	want, earlier := &routev3.RouteConfiguration{}, &routev3.RouteConfiguration{}
	for _, into := range []*routev3.RouteConfiguration{want, earlier} {
		if err := whole[0].Any.UnmarshalTo(into); err != nil {
			t.Fatal(err)
		}
	}
	host := earlier.VirtualHosts[0]
	earlier.RequestHeadersToAdd, earlier.RequestHeadersToRemove, host.RequestHeadersToRemove = nil, nil, nil
	host.Matcher.OnNoMatch = host.Matcher.OnNoMatch.GetMatcher().OnNoMatch
	inHeaders, err := onMatch(forkRoute(RoutedSandbox+"feature", netip.MustParseAddrPort("10.0.0.1:80")))
	if err != nil {
		t.Fatal(err)
	}
	host.Matcher.GetMatcherTree().GetExactMatchMap().Map[MatchValue(8080, "k1")] = inHeaders
	old := whole[0]
	old.Any = anyOfMessage(t, earlier)
	for name, r := range map[string]Resource{"of an earlier one": old, "of its own": whole[0]} {
		fit, err := Refit(r, false)
		if err != nil {
			t.Fatal(err)
		}
		got := &routev3.RouteConfiguration{}
		if err := fit.Any.UnmarshalTo(got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || fit.Version != r.Version || fit.Name != r.Name {
			t.Errorf("%s, version %s: (-want +got):\n%s", name, fit.Version, diff)
		}
	}
	host.Matcher.OnNoMatch = nil
	old.Any = anyOfMessage(t, earlier)
	if _, err := Refit(old, false); err == nil || !strings.Contains(err.Error(), old.Name) {
		t.Errorf("without a way to the baseline: got %v", err)
	}
}

func headWith(t *testing.T, custom []string) *routev3.VirtualHost {
	t.Helper()
	host, err := headOf(heading{tableVersion: "1", keyHeaders: custom})
	if err != nil {
		t.Fatal(err)
	}
	return host
}

func anyOfMessage(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	packed, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// lastForm returns the conditions of the last form, and a function that reports which filters
// are on in it.
func lastForm(t *testing.T, host *routev3.VirtualHost) (conditions []string, on func(filter string) bool) {
	t.Helper()
	says, err := headingIn(host)
	if err != nil {
		t.Fatal(err)
	}
	if host, err = hostOf(says); err != nil {
		t.Fatal(err)
	}
	forms := host.Matcher.OnNoMatch.GetMatcher().GetMatcherList().Matchers
	last := forms[len(forms)-1]
	route := formOf(t, last.OnMatch)
	for _, p := range last.Predicate.GetOrMatcher().GetPredicate() {
		conditions = append(conditions, conditionOf(t, p.GetSinglePredicate()))
	}
	return conditions, func(filter string) bool {
		config := &routev3.FilterConfig{}
		if packed := route.TypedPerFilterConfig[filter]; packed != nil {
			return packed.UnmarshalTo(config) == nil && config.Config != nil && !config.Disabled
		}
		return host.TypedPerFilterConfig[filter] != nil
	}
}

func conditionOf(t *testing.T, p *matcherv3.Matcher_MatcherList_Predicate_SinglePredicate) string {
	t.Helper()
	input := &envoymatcherv3.HttpRequestHeaderMatchInput{}
	if err := p.GetInput().GetTypedConfig().UnmarshalTo(input); err != nil {
		t.Fatal(err)
	}
	if text := p.GetValueMatch().GetContains(); text != "" {
		return input.HeaderName + " has " + text
	}
	return input.HeaderName + " is " + p.GetValueMatch().GetSafeRegex().GetRegex()
}
