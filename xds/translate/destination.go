package translate

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	setfilterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// A route to a sandbox is sent with the destination in a header, the form that sidecars of all
// releases accept. The proxy gets it in the route's metadata instead: DestinationFilter copies it
// from there to the request's filter state, where ForksCluster finds it at each try, and no
// header has to be removed on the way to the fork. See tools/adr/0026.

// destinationState is the filter state that clusters of Envoy's type ORIGINAL_DST read first.
const destinationState = "envoy.network.transport_socket.original_dst_address"

// DestinationNamespace and DestinationKey are the path of the destination in a route's metadata. They
// are short because the proxy keeps each route as it was written, too.
const (
	DestinationNamespace = "sd"
	DestinationKey       = "to"
)

// routeType is the type URL of a route in an entry, and movedType that of one with its destination in
// its metadata: Envoy and Go's library read the name after the last slash.
const (
	routeType = "type.googleapis.com/envoy.config.route.v3.Route"
	movedType = "t/envoy.config.route.v3.Route"
)

// noteDestination returns the configuration of DestinationFilter. It is in the virtual host: the
// filter's own configuration is evaluated before Envoy selects the route that MatchFilter makes
// possible, and that of the virtual host after.
func noteDestination() *setfilterstatev3.Config {
	const value = "%METADATA(ROUTE:" + DestinationNamespace + ":" + DestinationKey + ")%"
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

// entryRoute is the path from a map to the route of an entry, in its Any.
var entryRoute = []protowire.Number{mapEntry, entryValue, matchAction, configAny}

// forProxy returns the entries of a map in the form that the proxy takes, and whether requests of some come back to it
// (returning): none do to a proxy without a secret. They are edited as bytes: to decode all of them would take several times
// the memory that they need.
func forProxy(entries []byte, secret bool) (ready []byte, returns bool, err error) {
	ready = make([]byte, 0, len(entries)+len(entries)/8)
	err = mapEntries(entries, func(_ string, raw []byte) error {
		edited, err := within(raw, entryRoute, func(packed []byte) ([]byte, error) {
			return retyped(packed, routeType, movedType, func(route []byte) ([]byte, error) { return inMetadata(route, secret) })
		})
		if err == nil {
			returns = returns || bytes.Contains(edited, []byte(returning))
			raw = edited
		}
		ready = append(ready, raw...)
		return nil
	})
	return ready, returns, err
}

// returning is the value of ReturnHeader on the way to where requests are recorded: the proxy's secret.
const returning = "%METADATA(VIRTUAL_HOST:" + MetadataNamespace + ":" + ReturnKey + ")%"

// unrecorded returns an encoded route of recorded requests as the one that sends them to the application at once.
func unrecorded(route []byte) ([]byte, error) {
	name, err := only(route, routeName)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(appRoute(strings.TrimSuffix(string(name), RoutedRecorded)))
}

// errNoDestination: a route stays as it is, for Unfit and the proxy to judge. ForksCluster still
// finds an address in the header, so that no such route sends requests to the baseline.
var errNoDestination = errors.New("it has no destination in its one added header")

// retyped edits the route in an Any of one type, and gives it another.
func retyped(packed []byte, from, to string, edit func(route []byte) ([]byte, error)) ([]byte, error) {
	name, err := only(packed, anyType)
	if err != nil {
		return nil, err
	}
	if string(name) != from {
		return nil, errNoDestination
	}
	route, err := only(packed, anyValue)
	if err != nil {
		return nil, err
	}
	if route, err = edit(route); err != nil {
		return nil, err
	}
	return field(field(make([]byte, 0, len(to)+len(route)+8), anyType, []byte(to)), anyValue, route), nil
}

// inMetadata moves the destination of an encoded route from the header that it adds to its metadata.
// The virtual host removes the header of the client, if any. If requests are recorded there, it adds ReturnHeader;
// without a secret to add, they would go back and forth, and the route is unrecorded.
func inMetadata(route []byte, secret bool) ([]byte, error) {
	out, found := make([]byte, 0, len(route)+32), false
	recorded := false
	err := fields(route, func(number protowire.Number, raw, value []byte) error {
		switch number {
		case routeMetadata:
			return errNoDestination
		case routeName:
			recorded = isRecorded(string(value))
			out = append(out, raw...)
		case routeAdds:
			var added corev3.HeaderValueOption
			if err := proto.Unmarshal(value, &added); err != nil || found || added.GetHeader().GetKey() != DestinationHeader {
				return errNoDestination
			}
			found = true
			out = field(out, routeMetadata, inStruct(DestinationNamespace, DestinationKey, added.Header.Value))
		default:
			out = append(out, raw...)
		}
		return nil
	})
	switch {
	case err == nil && !found:
		return nil, errNoDestination
	case err != nil || !recorded:
		return out, err
	case !secret:
		return unrecorded(route)
	}
	added, err := proto.Marshal(&corev3.HeaderValueOption{
		Header: &corev3.HeaderValue{Key: ReturnHeader, Value: returning}, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	})
	return field(out, routeAdds, added), err
}

// inStruct encodes the metadata with one text in one namespace.
func inStruct(namespace, key, text string) []byte {
	entry := func(key string, value []byte) []byte {
		return field(nil, mapEntry, field(nil, entryKey, []byte(key)), field(nil, entryValue, value))
	}
	return entry(namespace, entry(key, field(nil, valueText, []byte(text))))
}

// Portable returns composed routes in the form to keep on disk, which Refit of every release takes: destinations are in
// headers, as in parts. Sidecars of earlier releases do not read metadata, and would send the requests to the baseline. They
// would send recorded requests back and forth: such routes are kept as those to the application, under another version so
// that the first answer of a route server replaces them. The secret of Head.Returning is not kept.
func Portable(r Resource, secret string) (Resource, error) {
	content := r.Any.GetValue()
	if bytes.Contains(content, []byte(returning)) {
		r.Version += "-unrecorded"
	}
	content, err := within(content, append([]protowire.Number{configHosts, hostMatcher, matcherTree, treeMap}, entryRoute...), movedBack)
	if err != nil {
		return Resource{}, fmt.Errorf("%s: %w", r.Name, err)
	}
	if secret != "" { // all but the routes is made again by Refit, so the length alone counts.
		content = bytes.ReplaceAll(content, []byte(secret), bytes.Repeat([]byte{'-'}, len(secret)))
	}
	r.Any, r.Encoded = &anypb.Any{TypeUrl: r.Any.GetTypeUrl(), Value: content}, nil
	return r, nil
}

// movedBack reverts moved. Routes that were not moved stay as they are.
func movedBack(packed []byte) ([]byte, error) {
	back, err := retyped(packed, movedType, routeType, toHeader)
	if errors.Is(err, errNoDestination) {
		return packed, nil
	}
	return back, err
}

// toHeader reverts inMetadata, except that recorded routes are unrecorded.
func toHeader(route []byte) ([]byte, error) {
	if bytes.Contains(route, []byte(returning)) {
		return unrecorded(route)
	}
	out := make([]byte, 0, len(route)+32)
	err := fields(route, func(number protowire.Number, raw, value []byte) error {
		if number != routeMetadata {
			out = append(out, raw...)
			return nil
		}
		metadata := &corev3.Metadata{}
		if err := proto.Unmarshal(value, metadata); err != nil {
			return err
		}
		address := metadata.GetFilterMetadata()[DestinationNamespace].GetFields()[DestinationKey].GetStringValue()
		if address == "" {
			return errNoDestination
		}
		added, err := proto.Marshal(header(DestinationHeader, address))
		out = field(out, routeAdds, added)
		return err
	})
	return out, err
}
