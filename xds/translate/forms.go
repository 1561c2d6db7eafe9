package translate

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	headertometadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_to_metadata/v3"
	networkv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/xds/routingkey"
)

// Routes are received over the network from any server that answers to the route server's name.
// The functions below accept only the forms that this package produces, so that such a server
// cannot send requests without a key anywhere but to the baseline: see tools/adr/0030.

// headingIn decodes the statements in the virtual host of a head. It returns an error if
// requests without a key would not reach the baseline, or keys are read from anything but
// headers.
func headingIn(host *routev3.VirtualHost) (heading, error) {
	otherwise := host.GetMatcher().GetOnNoMatch()
	for otherwise.GetMatcher() != nil { // forms of switchOn
		otherwise = otherwise.GetMatcher().GetOnNoMatch()
	}
	route := &routev3.Route{}
	if err := otherwise.GetAction().GetTypedConfig().UnmarshalTo(route); err != nil {
		return heading{}, fmt.Errorf("its action without a match is not a route: %w", err)
	}
	if to := route.GetRoute().GetCluster(); to != AppCluster {
		return heading{}, fmt.Errorf("requests without a routing key would go to %.64q, not to the application in the pod", to)
	}
	table := host.GetMetadata().GetFilterMetadata()[MetadataNamespace].GetFields()[TableKey].GetStringValue()
	custom, err := customIn(host)
	return heading{tableVersion: table, keyHeaders: custom}, err
}

// customIn returns the custom headers that a virtual host's own configuration of KeyFilter
// reads keys from, first in precedence first.
func customIn(host *routev3.VirtualHost) ([]string, error) {
	own := host.GetTypedPerFilterConfig()[KeyFilter]
	if own == nil {
		return nil, nil
	}
	config := &headertometadatav3.Config{}
	if err := own.UnmarshalTo(config); err != nil {
		return nil, fmt.Errorf("its configuration of %s: %w", KeyFilter, err)
	}
	var custom []string
	for _, rule := range slices.Backward(config.RequestRules) {
		switch name := rule.GetHeader(); {
		case name == "" || rule.OnHeaderMissing != nil:
			return nil, fmt.Errorf("its configuration of %s finds keys in something other than headers", KeyFilter)
		case name == routingkey.Baggage || name == routingkey.Tracestate:
		default:
			custom = append(custom, name)
		}
	}
	return custom, nil
}

// checkCustom returns an error when one of the headers that are to carry keys cannot.
func checkCustom(names []string) error {
	for _, name := range names {
		if err := routingkey.CheckHeader(name); err != nil {
			return fmt.Errorf("its configuration of %s: %w", KeyFilter, err)
		}
	}
	return nil
}

// checkInput returns an error when a map is looked up by anything but the match value.
func checkInput(written []byte) error {
	input, state := &xdscorev3.TypedExtensionConfig{}, &networkv3.FilterStateInput{}
	if err := proto.Unmarshal(written, input); err != nil {
		return fmt.Errorf("the input of its map: %w", err)
	}
	if err := input.GetTypedConfig().UnmarshalTo(state); err != nil || state.Key != FilterStateKey {
		return fmt.Errorf("its map is looked up by %.100s %.64q, not by port and routing key", input.GetTypedConfig().GetTypeUrl(), state.Key)
	}
	return nil
}

// checkMatchValue returns an error when a value is not one that MatchValue gives for a key:
// that of requests without one has nothing behind the port.
func checkMatchValue(value string) error {
	port, key, _ := strings.Cut(value, "/")
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || key == "" {
		return fmt.Errorf("%.64q is no port and routing key", value)
	}
	return nil
}

// Unfit returns an error that names the first of a part's routes that is none of those
// this package makes, or nil when all are.
func (p *Part) Unfit() error {
	return mapEntries(p.entries, func(value string, raw []byte) error {
		route, err := routeIn(raw)
		if err == nil {
			err = unfit(route)
		}
		if err != nil {
			return fmt.Errorf("the route of %.64q is none that this sidecar takes: %w", value, err)
		}
		return nil
	})
}

// unfit returns why a route is none of those that routeOf makes, or nil. Its deadlines and
// texts may differ from today's.
func unfit(r *routev3.Route) error {
	rest := proto.CloneOf(r)
	if proto.Equal(rest.Match, everything()) {
		rest.Match = nil
	}
	var err error
	switch does := rest.Action.(type) {
	case *routev3.Route_DirectResponse:
		err = unfitRefusal(r.Name, does.DirectResponse)
	case *routev3.Route_Route:
		err = unfitWay(r, does.Route)
	default:
		return errors.New("it neither forwards to a cluster nor refuses requests")
	}
	if err != nil {
		return err
	}
	rest.Name, rest.Action = "", nil
	rest.RequestHeadersToAdd = nil // unfitWay has seen them
	rest.RequestHeadersToRemove = slices.DeleteFunc(rest.RequestHeadersToRemove, func(name string) bool {
		return name == DestinationHeader || name == ProtoHeader
	})
	rest.ResponseHeadersToAdd = slices.DeleteFunc(rest.ResponseHeadersToAdd, func(h *corev3.HeaderValueOption) bool {
		return h.GetHeader().GetKey() == ReasonHeader || h.GetHeader().GetKey() == RoutedHeader
	})
	if proto.Size(rest) > 0 {
		return fmt.Errorf("it has more than it may have: %.200s", rest)
	}
	return nil
}

func unfitRefusal(name string, refusal *routev3.DirectResponseAction) error {
	text := refusal.GetBody().GetInlineString()
	if !strings.HasPrefix(name, RoutedSandbox) || !proto.Equal(refusal, refuses(text)) {
		return errors.New("it answers in another way than refusals do")
	}
	return nil
}

// unfitWay returns an error if the cluster of a route, or a header that it adds, is not one
// that this package produces.
func unfitWay(r *routev3.Route, to *routev3.RouteAction) error {
	rest := proto.CloneOf(to)
	rest.ClusterSpecifier, rest.Timeout, rest.IdleTimeout = nil, nil, nil
	added := r.RequestHeadersToAdd
	switch cluster := to.GetCluster(); {
	case proto.Size(rest) > 0:
		return fmt.Errorf("it does more than forward to a cluster: %.200s", rest)
	case cluster == AppCluster && strings.HasPrefix(r.Name, RoutedKept) && len(added) == 0:
		return nil
	case cluster == ForksCluster && (strings.HasPrefix(r.Name, RoutedSandbox) || isRecorded(r.Name)) && len(added) == 1 && added[0].GetHeader().GetKey() == DestinationHeader:
		return unfitDestination(added[0])
	default:
		return fmt.Errorf("%.64q forwards to cluster %.64q with %d headers added", r.Name, cluster, len(added))
	}
}

// isRecorded reports whether the route of this name has requests recorded on their way to the application.
func isRecorded(name string) bool {
	return strings.HasPrefix(name, RoutedKept) && strings.HasSuffix(name, RoutedRecorded)
}

func unfitDestination(h *corev3.HeaderValueOption) error {
	address, err := netip.ParseAddrPort(h.GetHeader().GetValue())
	if err != nil || !address.Addr().IsGlobalUnicast() || !proto.Equal(h, header(DestinationHeader, address.String())) {
		return fmt.Errorf("its destination is %.64q, which is no address of a Service", h.GetHeader().GetValue())
	}
	return nil
}
