package translate

import (
	"fmt"
	"net/netip"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networkv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/routingkey"
)

// heading are the statements of the head of a workload's routes besides the route to the
// baseline: the version of the rules, for response headers, and the custom headers that carry
// keys.
type heading struct {
	tableVersion string
	keyHeaders   []string
	// edge and secret are not sent: see Head.AtEdge and Head.Returning. Without a secret no request
	// is recorded on its way to the application.
	edge   bool
	secret string
}

// headingOf returns the heading of a workload's routes in a table.
func headingOf(t table.Table, w table.Workload) heading {
	return heading{tableVersion: t.HashOf(w).String()[:16], keyHeaders: t.KeyHeaders()}
}

// headOf returns the virtual host of a workload without its map, as it is sent.
func headOf(h heading) (*routev3.VirtualHost, error) {
	baseline, err := onMatch(baselineRoute())
	if err != nil {
		return nil, err
	}
	filters, err := perHost(h.keyHeaders, sentExtraction)
	if err != nil {
		return nil, err
	}
	return &routev3.VirtualHost{
		Name:    "requests",
		Domains: []string{"*"},
		Matcher: &matcherv3.Matcher{OnNoMatch: baseline},
		Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{MetadataNamespace: {
			Fields: map[string]*structpb.Value{TableKey: structpb.NewStringValue(h.tableVersion)},
		}}},
		TypedPerFilterConfig:   filters,
		RequestHeadersToRemove: h.removed(),
	}, nil
}

// removed returns the headers that no server sees.
func (h heading) removed() []string {
	names := []string{ProtoHeader}
	if h.edge {
		for _, e := range routingkey.Extractions(h.keyHeaders) {
			// Of baggage and tracestate only an entry goes, which the proxy takes out.
			if e.Holds == "" {
				names = append(names, e.Header)
			}
		}
	}
	return names
}

// mapInput returns what the map is looked up by.
func mapInput() (*xdscorev3.TypedExtensionConfig, error) {
	input, err := packed(&networkv3.FilterStateInput{Key: FilterStateKey})
	if err != nil {
		return nil, err
	}
	return &xdscorev3.TypedExtensionConfig{Name: "route", TypedConfig: input}, nil
}

// edits are entries of the map that are to be written, by part and match value;
// nil for one that is to go.
type edits [PartCount]map[string][]byte

func (e *edits) set(matchValue string, entry []byte) {
	i := partOf(matchValue)
	if e[i] == nil {
		e[i] = map[string][]byte{}
	}
	e[i][matchValue] = entry
}

// drop takes a rule's entries out.
func (e *edits) drop(rule *table.Rule) {
	if rule == nil {
		return
	}
	for _, m := range rule.Mappings {
		e.set(MatchValue(m.WorkloadPort, rule.RoutingKey), nil)
	}
}

// add writes a rule's entries. An error means that the rule holds something that
// has no form in protobuf.
func (e *edits) add(rule *table.Rule) error {
	if rule == nil {
		return nil
	}
	for _, m := range rule.Mappings {
		value := MatchValue(m.WorkloadPort, rule.RoutingKey)
		written, err := entry(value, routeOf(rule, m))
		if err != nil {
			return fmt.Errorf("sandbox %q: %w", rule.Sandbox, err)
		}
		e.set(value, written)
	}
	return nil
}

// routeOf decides where requests with the rule's key to one port go: never to
// the baseline, unless they are kept there on purpose.
func routeOf(rule *table.Rule, m table.Mapping) *routev3.Route {
	to, reachable := destinationOf(m)
	if rule.Kept() && reachable {
		return forkRoute(RoutedKept+inHeader(rule.Sandbox)+RoutedRecorded, to)
	}
	if rule.Kept() {
		return appRoute(RoutedKept + inHeader(rule.Sandbox))
	}
	name := RoutedSandbox + inHeader(rule.Sandbox)
	if !rule.Ready {
		return refusal(name, ReasonNotReady, fmt.Sprintf(
			"sandbox %q holds this routing key and is not ready", rule.Sandbox))
	}
	if reachable {
		return forkRoute(name, to)
	}
	return refusal(name, ReasonNoAddress, fmt.Sprintf(
		"sandbox %q holds this routing key and has no cluster address for port %d of the workload (was its Service refused? See the conditions of the ForkedWorkload)",
		rule.Sandbox, m.WorkloadPort))
}

// destinationOf returns the first destination that has an address.
func destinationOf(m table.Mapping) (to netip.AddrPort, ok bool) {
	for _, d := range m.Destinations {
		if address, err := netip.ParseAddr(d.Address); err == nil && d.Port > 0 && d.Port <= 65535 {
			return netip.AddrPortFrom(address, uint16(d.Port)), true
		}
	}
	return to, false
}

// baselineRoute sends requests to the application in the pod. It removes the internal header of
// the client, if any.
func baselineRoute() *routev3.Route { return appRoute(RoutedBaseline) }

// appRoute is that route under another name. It targets the pod's own application, not a
// Service of the baseline: that would reach a sidecar again, in a loop.
func appRoute(name string) *routev3.Route {
	return &routev3.Route{
		Name: name, Match: everything(), Action: toCluster(AppCluster),
		RequestHeadersToRemove: []string{DestinationHeader},
	}
}

// forkRoute sends requests to a sandbox's Service, in the form of parts (destination.go).
func forkRoute(name string, destination netip.AddrPort) *routev3.Route {
	return &routev3.Route{
		Name: name, Match: everything(), Action: toCluster(ForksCluster),
		RequestHeadersToAdd: []*corev3.HeaderValueOption{header(DestinationHeader, destination.String())},
	}
}

func refusal(name, reason, text string) *routev3.Route {
	return &routev3.Route{
		Name: name, Match: everything(),
		Action:               &routev3.Route_DirectResponse{DirectResponse: refuses(text + "\n")},
		ResponseHeadersToAdd: []*corev3.HeaderValueOption{header(ReasonHeader, reason), header(RoutedHeader, name)},
	}
}

func refuses(text string) *routev3.DirectResponseAction {
	return &routev3.DirectResponseAction{
		Status: 503,
		Body:   &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}},
	}
}

// everything matches any path, "*" of OPTIONS included.
func everything() *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: ""}}
}

// toCluster sets no deadline: how long a request may take is between its client
// and its server.
func toCluster(name string) *routev3.Route_Route {
	return &routev3.Route_Route{Route: &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: name},
		Timeout:          durationpb.New(0),
	}}
}

// inHeader escapes a name for use in a header: bytes that are not printable ASCII, and the per
// cent sign, become a per cent sign and two hexadecimal digits.
func inHeader(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// header sets a header to a value as it stands: Envoy would read it as a format,
// and one value that is none would make it refuse the routes of all sandboxes.
func header(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, Value: strings.ReplaceAll(value, "%", "%%")},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

func onMatch(r *routev3.Route) (*matcherv3.Matcher_OnMatch, error) {
	action, err := packed(r)
	if err != nil {
		return nil, err
	}
	return &matcherv3.Matcher_OnMatch{OnMatch: &matcherv3.Matcher_OnMatch_Action{
		Action: &xdscorev3.TypedExtensionConfig{Name: "route", TypedConfig: action},
	}}, nil
}

// packed puts a message into an Any with deterministic bytes.
func packed(m proto.Message) (*anypb.Any, error) {
	packed := &anypb.Any{}
	if err := anypb.MarshalFrom(packed, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		return nil, fmt.Errorf("write %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return packed, nil
}
