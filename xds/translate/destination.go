package translate

import (
	"slices"

	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	setfilterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// A route to a sandbox is sent with the destination in a header, the form that sidecars of all
// releases accept. The proxy gets it in the route's metadata instead: DestinationFilter copies it
// from there to the request's filter state, where ForksCluster finds it at each try, and no
// header has to be removed on the way to the fork. See tools/adr/0026.

// destinationState is the filter state that clusters of Envoy's type ORIGINAL_DST read first.
const destinationState = "envoy.network.transport_socket.original_dst_address"

// DestinationKey is where the destination is in a route's metadata, within MetadataNamespace.
const DestinationKey = "destination"

// noteDestination returns the configuration of DestinationFilter. It is in the virtual host: the
// filter's own configuration is evaluated before Envoy selects the route that MatchFilter makes
// possible, and that of the virtual host after.
func noteDestination() *setfilterstatev3.Config {
	const value = "%METADATA(ROUTE:" + MetadataNamespace + ":" + DestinationKey + ")%"
	return &setfilterstatev3.Config{OnRequestHeaders: []*filterstatev3.FilterStateValue{{
		Key:         &filterstatev3.FilterStateValue_ObjectKey{ObjectKey: destinationState},
		SkipIfEmpty: true,
		Value: &filterstatev3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
			OmitEmptyValues: true,
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: value},
			}},
		}},
	}}}
}

// forProxy returns the entries of a map in the form that the proxy takes. An entry that cannot be
// read stays as it is, for Unfit and the proxy to refuse.
func forProxy(entries []byte) ([]byte, error) {
	out := make([]byte, 0, len(entries)+len(entries)/8)
	err := mapEntries(entries, func(value string, raw []byte) error {
		if route, err := routeIn(raw); err == nil && inMetadata(route) {
			if raw, err = entry(value, route); err != nil {
				return err
			}
		}
		out = append(out, raw...)
		return nil
	})
	return out, err
}

// inMetadata moves the destination of a route to a sandbox from the header to the metadata. It
// reports whether it did: routes to anywhere else, and those that unfitWay refuses, are left alone.
// ForksCluster still finds the header, so that no such route leads to the baseline.
func inMetadata(r *routev3.Route) bool {
	if r.GetRoute().GetCluster() != ForksCluster || r.Metadata != nil || unfitWay(r, r.GetRoute()) != nil {
		return false
	}
	r.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{MetadataNamespace: {
		Fields: map[string]*structpb.Value{DestinationKey: structpb.NewStringValue(r.RequestHeadersToAdd[0].Header.Value)},
	}}}
	r.RequestHeadersToAdd = nil
	// The client's, if any.
	if !slices.Contains(r.RequestHeadersToRemove, DestinationHeader) {
		r.RequestHeadersToRemove = append(r.RequestHeadersToRemove, DestinationHeader)
	}
	return true
}

// refitRoutes does for a whole map what forProxy does for its entries.
func refitRoutes(m *matcherv3.Matcher) error {
	for _, match := range m.GetMatcherTree().GetExactMatchMap().GetMap() {
		action, route := match.GetAction().GetTypedConfig(), &routev3.Route{}
		if err := action.UnmarshalTo(route); err != nil {
			return err
		}
		if !inMetadata(route) {
			continue
		}
		to, err := packed(route)
		if err != nil {
			return err
		}
		match.GetAction().TypedConfig = to
	}
	return nil
}
