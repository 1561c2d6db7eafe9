package translate

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	headertometadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_to_metadata/v3"
	networkv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
)

// A server that answers to the route server's name can send any head.
func TestAHeadThatLeadsRequestsWithoutAKeyElsewhereIsRefused(t *testing.T) {
	otherwise := func(r *routev3.Route) *routev3.VirtualHost {
		h := headWith(t, nil)
		var err error
		if h.Matcher.OnNoMatch, err = onMatch(r); err != nil {
			t.Fatal(err)
		}
		return h
	}
	withConfig := func(config proto.Message) *routev3.VirtualHost {
		h := headWith(t, nil)
		h.TypedPerFilterConfig = map[string]*anypb.Any{KeyFilter: anyOfMessage(t, config)}
		return h
	}
	rules := func(rule *headertometadatav3.Config_Rule) *headertometadatav3.Config {
		return &headertometadatav3.Config{RequestRules: []*headertometadatav3.Config_Rule{rule}}
	}
	nowhere := headWith(t, nil)
	nowhere.Matcher.OnNoMatch = nil
	for name, c := range map[string]struct {
		head *routev3.VirtualHost
		want string
	}{
		"no route without a match":       {nowhere, "is not a route"},
		"to a fork":                      {otherwise(forkRoute("baseline", netip.MustParseAddrPort("10.0.0.9:80"))), `go to "forks"`},
		"refused":                        {otherwise(refusal("baseline", ReasonNotReady, "no")), `go to ""`},
		"keys from a cookie":             {withConfig(rules(&headertometadatav3.Config_Rule{Cookie: "key"})), "other than headers"},
		"keys from the path":             {withConfig(rules(&headertometadatav3.Config_Rule{Header: ":path"})), `":path" is not the name`},
		"keys from what browsers send":   {withConfig(rules(&headertometadatav3.Config_Rule{Header: "sec-fetch-mode"})), "cannot carry a routing key"},
		"a key where the header is none": {withConfig(rules(&headertometadatav3.Config_Rule{Header: "x", OnHeaderMissing: &headertometadatav3.Config_KeyValuePair{Value: "k"}})), "other than headers"},
		"another configuration":          {withConfig(&routev3.FilterConfig{}), KeyFilter},
	} {
		content, err := proto.Marshal(c.head)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ReadHead(customer, written(PartType, HeadName(customer), "1", content))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "routes/") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Other content of a head does not reach the proxy.
func TestOfAHeadOnlyWhatItSaysIsTaken(t *testing.T) {
	custom := []string{"x-team"}
	h := headWith(t, custom)
	want, err := hostOf(heading{tableVersion: "1", keyHeaders: custom})
	if err != nil {
		t.Fatal(err)
	}
	config := KeyExtraction(custom)
	for _, rule := range config.RequestRules { // any baggage is a key
		rule.OnHeaderPresent.RegexValueRewrite.Pattern.Regex, rule.OnHeaderPresent.RegexValueRewrite.Substitution = `^\C*$`, "k"
	}
	h.TypedPerFilterConfig[KeyFilter] = anyOfMessage(t, config)
	h.TypedPerFilterConfig["envoy.filters.http.router"] = anyOfMessage(t, &routev3.FilterConfig{Disabled: true})
	h.Domains = []string{"somewhere.else"}
	h.RequestHeadersToAdd = []*corev3.HeaderValueOption{header("authorization", "stolen")}
	h.Matcher.MatcherType = treeOf(input(t, FilterStateKey), map[string]*matcherv3.Matcher_OnMatch{"8080/": h.Matcher.OnNoMatch})
	h.RequestMirrorPolicies = []*routev3.RouteAction_RequestMirrorPolicy{{Cluster: ForksCluster}}
	says, err := headingIn(h)
	if err != nil {
		t.Fatal(err)
	}
	got, err := hostOf(says)
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("%v\n%v, want\n%v", err, got, want)
	}
}

func TestAMapThatIsNotLookedUpByTheRoutingKeyIsRefused(t *testing.T) {
	written := func(in *xdscorev3.TypedExtensionConfig) []byte {
		b, err := proto.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if err := checkInput(written(input(t, FilterStateKey))); err != nil {
		t.Error(err)
	}
	path, err := packed(wrapperspb.String(":path"))
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []*xdscorev3.TypedExtensionConfig{nil, {}, input(t, ""), input(t, "envoy.tcp_proxy.cluster"), {Name: "route", TypedConfig: path}} {
		if err := checkInput(written(in)); err == nil {
			t.Errorf("%v is taken", in)
		}
	}
}

func TestAnEntryForRequestsWithoutAKeyIsRefused(t *testing.T) {
	for value, want := range map[string]bool{
		"8080/k": true, "1/a/b": true, "65535/ ": true, MatchValue(80, "k"): true,
		"8080/": false, "8080": false, "/k": false, "": false, "0/k": false, "65536/k": false, "x/k": false, "-1/k": false,
	} {
		if err := checkMatchValue(value); (err == nil) != want {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// A route of each form, and forms that no route server of the operator produces.
func TestARouteOfAnotherFormIsUnfit(t *testing.T) {
	fork := func() *routev3.Route { return forkRoute(RoutedSandbox+"s", netip.MustParseAddrPort("10.0.0.9:80")) }
	kept := func() *routev3.Route { return appRoute(RoutedKept + "s") }
	refused := func() *routev3.Route { return refusal(RoutedSandbox+"s", ReasonNotReady, "100% no") }
	for i, r := range []*routev3.Route{
		fork(), kept(), refused(), recordedRoute(), forkRoute(RoutedSandbox+"50%25", netip.MustParseAddrPort("[fd00::1]:80")),
	} {
		if err := unfit(r); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	destined := func(to string) *routev3.Route {
		r := fork()
		r.RequestHeadersToAdd[0].Header.Value = to
		return r
	}
	with := func(r *routev3.Route, change func(r *routev3.Route)) *routev3.Route {
		change(r)
		return r
	}
	for name, r := range map[string]*routev3.Route{
		"recorded in silence": with(recordedRoute(), func(r *routev3.Route) { r.Name = RoutedSandbox[:3] + RoutedRecorded }),
		"another mark": with(recordedRoute(), func(r *routev3.Route) {
			r.RequestHeadersToAdd = append(r.RequestHeadersToAdd, header(ReturnHeader, "x"))
		}),
		"nothing":            {},
		"a redirect":         {Name: RoutedSandbox + "s", Match: everything(), Action: &routev3.Route_Redirect{Redirect: &routev3.RedirectAction{HostRedirect: "evil"}}},
		"another cluster":    with(fork(), func(r *routev3.Route) { r.Action = toCluster("late") }),
		"the xDS cluster":    with(kept(), func(r *routev3.Route) { r.Action = toCluster("xds") }),
		"in silence the app": with(kept(), func(r *routev3.Route) { r.Name = RoutedSandbox + "s" }),
		"a fork as kept":     with(fork(), func(r *routev3.Route) { r.Name = RoutedKept + "s" }),
		"a cluster by a header": with(fork(), func(r *routev3.Route) {
			r.GetRoute().ClusterSpecifier = &routev3.RouteAction_ClusterHeader{ClusterHeader: "x"}
		}),
		"a mirror": with(fork(), func(r *routev3.Route) {
			r.GetRoute().RequestMirrorPolicies = []*routev3.RouteAction_RequestMirrorPolicy{{Cluster: ForksCluster}}
		}),
		"another path": with(fork(), func(r *routev3.Route) { r.GetRoute().PrefixRewrite = "/" }),
		"one path": with(fork(), func(r *routev3.Route) {
			r.Match = &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: "/"}}
		}),
		"one more header":   with(fork(), func(r *routev3.Route) { r.RequestHeadersToAdd = append(r.RequestHeadersToAdd, header("x", "y")) }),
		"another header":    with(fork(), func(r *routev3.Route) { r.RequestHeadersToAdd[0].Header.Key = "x" }),
		"no destination":    with(fork(), func(r *routev3.Route) { r.RequestHeadersToAdd = nil }),
		"a header for app":  with(kept(), func(r *routev3.Route) { r.RequestHeadersToAdd = []*corev3.HeaderValueOption{header("x", "y")} }),
		"a header is taken": with(fork(), func(r *routev3.Route) { r.RequestHeadersToRemove = []string{"authorization"} }),
		"an answer's header": with(refused(), func(r *routev3.Route) {
			r.ResponseHeadersToAdd = append(r.ResponseHeadersToAdd, header("set-cookie", "a=b"))
		}),
		"another status": with(refused(), func(r *routev3.Route) { r.GetDirectResponse().Status = 200 }),
		"a file's content": with(refused(), func(r *routev3.Route) {
			r.GetDirectResponse().Body.Specifier = &corev3.DataSource_Filename{Filename: "/etc/passwd"}
		}),
		"a filter": with(fork(), func(r *routev3.Route) {
			r.TypedPerFilterConfig = map[string]*anypb.Any{KeyFilter: anyOfMessage(t, &routev3.FilterConfig{})}
		}),
		"a name":            destined("evil:80"),
		"a format":          destined("%REQ(x)%"),
		"itself":            destined("127.0.0.1:15000"),
		"the node's secret": destined("169.254.169.254:80"),
		"everybody":         destined("0.0.0.0:80"),
	} {
		if err := unfit(r); err == nil {
			t.Errorf("%s: is taken", name)
		}
	}
	bad, err := entry("8080/k", destined("evil:80"))
	if err != nil {
		t.Fatal(err)
	}
	good, err := entry("8080/j", fork())
	if err != nil {
		t.Fatal(err)
	}
	p := &Part{entries: append(good, bad...)}
	if err := p.Unfit(); err == nil || !strings.Contains(err.Error(), `"8080/k"`) || !strings.Contains(err.Error(), `"evil:80"`) {
		t.Errorf("got %v", err)
	}
}

// recordedRoute is that of a request which is recorded on its way to the application.
func recordedRoute() *routev3.Route {
	return forkRoute(RoutedKept+"s"+RoutedRecorded, netip.MustParseAddrPort("10.0.0.9:80"))
}

func input(t *testing.T, key string) *xdscorev3.TypedExtensionConfig {
	t.Helper()
	in, err := packed(&networkv3.FilterStateInput{Key: key})
	if err != nil {
		t.Fatal(fmt.Errorf("input: %w", err))
	}
	return &xdscorev3.TypedExtensionConfig{Name: "route", TypedConfig: in}
}
