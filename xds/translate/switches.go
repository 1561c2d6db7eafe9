package translate

import (
	"slices"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	headertometadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_to_metadata/v3"
	envoymatcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"switchyard.dev/xds/routingkey"
)

// A filter costs every request that passes it, whether or not it has anything to do,
// and most requests carry no key, ask for no explanation and have one Host. So the
// proxy has the filters below switched off, and the routes switch on what a request
// needs: see tools/adr/0027.
const (
	// RefuseFilter refuses a request.
	RefuseFilter = "signadot.com/refuse"
	// DestinationFilter notes the destination of a request to a sandbox (destination.go).
	DestinationFilter = "signadot.com/destination"
	// MatchFilter sets the filter state FilterStateKey from what KeyFilter found.
	MatchFilter = "envoy.filters.http.set_filter_state"
	// ExplainFilter adds response headers that report how the request was routed.
	ExplainFilter = "signadot.com/explain"
	// ExplainHeader with the value 1 asks for that.
	ExplainHeader = "sd-explain"
)

// switchOn expands the route for no match, of a virtual host that headOf built, to four forms that
// differ in the filters that they enable; DestinationFilter is off in the last only, which is also
// that of requests that come back after they were recorded, whatever key they carry. This is done
// where the parts are composed, as with forAll, so that the forms match the filters of this
// program's proxy.
func switchOn(host *routev3.VirtualHost, says heading) error {
	// A filter that the virtual host configures is on unless the route switches it off.
	off, err := packed(&routev3.FilterConfig{Disabled: true})
	if err != nil {
		return err
	}
	without := baselineRoute()
	without.TypedPerFilterConfig = map[string]*anypb.Any{DestinationFilter: off}
	plain, err := onMatch(without)
	if err != nil {
		return err
	}
	on := switches{host: host, route: baselineRoute()}
	// Envoy joins several Host headers into one, with a comma; servers refuse them.
	on.when(contains(":authority", ","), RefuseFilter, KeyFilter, MatchFilter)
	if says.secret != "" {
		on.all = append(on.all, &matcherv3.Matcher_MatcherList_FieldMatcher{Predicate: exactly(ReturnHeader, says.secret), OnMatch: plain})
	}
	on.when(exactly(ExplainHeader, "1"), KeyFilter, MatchFilter, ExplainFilter)
	on.when(anyOf(carriers(says.keyHeaders)), KeyFilter, MatchFilter)
	if on.err != nil {
		return on.err
	}
	host.Matcher.OnNoMatch = &matcherv3.Matcher_OnMatch{OnMatch: &matcherv3.Matcher_OnMatch_Matcher{Matcher: &matcherv3.Matcher{
		MatcherType: &matcherv3.Matcher_MatcherList_{MatcherList: &matcherv3.Matcher_MatcherList{Matchers: on.all}},
		OnNoMatch:   plain,
	}}}
	return nil
}

// carriers returns a condition for each header that KeyFilter reads, first in precedence first:
// most keys are there, so that the others are seldom evaluated. A request that matches none of
// them has no key: the conditions can be wider than a key, and never narrower.
func carriers(custom []string) []*predicate {
	var all []*predicate
	for _, e := range routingkey.Extractions(custom) {
		if e.Holds == "" {
			all = append(all, notEmpty(e.Header))
		} else {
			all = append(all, contains(e.Header, e.Holds))
		}
	}
	return all
}

// switches collects the forms of a route.
type switches struct {
	host  *routev3.VirtualHost
	route *routev3.Route
	all   []*matcherv3.Matcher_MatcherList_FieldMatcher
	err   error
}

// when adds the form that switches filters on.
func (s *switches) when(is *predicate, filters ...string) {
	route := proto.CloneOf(s.route)
	if route.TypedPerFilterConfig == nil {
		route.TypedPerFilterConfig = map[string]*anypb.Any{}
	}
	for _, name := range filters {
		// A filter that the virtual host configures is on already, and stays as it is there.
		if s.host.TypedPerFilterConfig[name] != nil {
			continue
		}
		// An empty configuration enables the filter with its configuration in the listener.
		on, err := packed(&routev3.FilterConfig{Config: &anypb.Any{}})
		if err != nil {
			s.err = err
			return
		}
		route.TypedPerFilterConfig[name] = on
	}
	match, err := onMatch(route)
	if err != nil {
		s.err = err
		return
	}
	s.all = append(s.all, &matcherv3.Matcher_MatcherList_FieldMatcher{Predicate: is, OnMatch: match})
}

type predicate = matcherv3.Matcher_MatcherList_Predicate

func contains(header, what string) *predicate {
	return says(header, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: what}})
}

func exactly(header, what string) *predicate {
	return says(header, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: what}})
}

// notEmpty is met by every value but the empty one, bytes that are not UTF-8 included.
func notEmpty(header string) *predicate {
	return says(header, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
		SafeRegex: &matcherv3.RegexMatcher{
			EngineType: &matcherv3.RegexMatcher_GoogleRe2{GoogleRe2: &matcherv3.RegexMatcher_GoogleRE2{}},
			Regex:      `\C+`,
		},
	}})
}

func anyOf(all []*predicate) *predicate {
	if len(all) == 1 {
		return all[0]
	}
	return &predicate{MatchType: &matcherv3.Matcher_MatcherList_Predicate_OrMatcher{
		OrMatcher: &matcherv3.Matcher_MatcherList_Predicate_PredicateList{Predicate: all},
	}}
}

func says(header string, what *matcherv3.StringMatcher) *predicate {
	// Nothing in this message can fail to be written.
	input, _ := packed(&envoymatcherv3.HttpRequestHeaderMatchInput{HeaderName: header})
	return &predicate{MatchType: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{
		SinglePredicate: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
			Input:   &xdscorev3.TypedExtensionConfig{Name: "header", TypedConfig: input},
			Matcher: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: what},
		},
	}}
}

const (
	// KeyFilter is the name of the proxy's filter that takes the routing key out of
	// a request. The virtual host replaces its configuration when custom headers
	// carry keys, so that the proxy follows the list without a new listener.
	KeyFilter = "envoy.filters.http.header_to_metadata"
	// KeyName is where KeyFilter puts the key, within MetadataNamespace.
	KeyName = "key"
)

// KeyExtraction returns the configuration of KeyFilter for the custom headers that
// carry keys, first in precedence first. A later rule that finds a key overwrites
// what an earlier one found, so the first in precedence stands last; a rule that
// finds none writes nothing.
func KeyExtraction(custom []string) *headertometadatav3.Config {
	return extractionBy(custom, func(e routingkey.Extraction) string { return e.Pattern })
}

// sentExtraction means what KeyExtraction does, with expressions that sidecars of all
// releases take. Today's read no more of it than the names of headers.
func sentExtraction(custom []string) *headertometadatav3.Config {
	return extractionBy(custom, func(e routingkey.Extraction) string { return e.Short })
}

func extractionBy(custom []string, pattern func(routingkey.Extraction) string) *headertometadatav3.Config {
	config := &headertometadatav3.Config{}
	for _, e := range slices.Backward(routingkey.Extractions(custom)) {
		config.RequestRules = append(config.RequestRules, &headertometadatav3.Config_Rule{
			Header: e.Header,
			OnHeaderPresent: &headertometadatav3.Config_KeyValuePair{
				MetadataNamespace: MetadataNamespace,
				Key:               KeyName,
				Type:              headertometadatav3.Config_STRING,
				RegexValueRewrite: &envoymatcherv3.RegexMatchAndSubstitute{
					Pattern:      &envoymatcherv3.RegexMatcher{Regex: pattern(e)},
					Substitution: e.Substitution,
				},
			},
		})
	}
	return config
}

// perHost returns what a virtual host changes of the proxy's filters. Without
// custom headers that is nothing: the proxy's own configuration reads baggage and
// tracestate.
func perHost(custom []string, extraction func(custom []string) *headertometadatav3.Config) (map[string]*anypb.Any, error) {
	if len(custom) == 0 {
		return nil, nil
	}
	config, err := packed(extraction(custom))
	if err != nil {
		return nil, err
	}
	return map[string]*anypb.Any{KeyFilter: config}, nil
}
