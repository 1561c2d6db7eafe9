package translate

import (
	"errors"
	"fmt"
	"unicode/utf8"

	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Parts are cut out of and inserted into the map as bytes, without decoding them, so that the
// cost of a change is proportional to its size. These are the field numbers on the path to the
// map's entries.
const (
	configName, configHosts   = 1, 2 // RouteConfiguration
	hostMatcher               = 21   // VirtualHost
	matcherTree               = 2    // Matcher
	treeInput, treeMap        = 1, 2 // Matcher.MatcherTree
	mapEntry                  = 1    // Matcher.MatcherTree.MatchMap
	entryKey, entryValue      = 1, 2 // an entry of it, or of any map
	matchAction, configAny    = 2, 2 // Matcher.OnMatch, TypedExtensionConfig
	routeMetadata, routeAdds  = 4, 9 // Route
	routeName                 = 14   // Route
	valueText                 = 3    // google.protobuf.Value
	anyType, anyValue         = 1, 2 // Any
	deltaVersion, deltaAny    = 1, 2 // discovery Resource
	deltaName, deltaResources = 3, 2 // discovery Resource, DeltaDiscoveryResponse
)

// field writes a field that holds a message or a text.
func field(b []byte, number protowire.Number, pieces ...[]byte) []byte {
	b = appendHeader(b, number, total(pieces))
	for _, p := range pieces {
		b = append(b, p...)
	}
	return b
}

// entry writes an entry of the map.
func entry(matchValue string, r *routev3.Route) ([]byte, error) {
	if !utf8.ValidString(matchValue) {
		return nil, fmt.Errorf("the routing key of %q is not UTF-8", matchValue)
	}
	match, err := onMatch(r)
	if err != nil {
		return nil, err
	}
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(match)
	if err != nil {
		return nil, fmt.Errorf("write the route of %q: %w", matchValue, err)
	}
	return field(nil, mapEntry, field(field(nil, entryKey, []byte(matchValue)), entryValue, value)), nil
}

var errMalformed = errors.New("it is not written as these resources are")

// fields calls each for the fields of a message; raw is the field with its tag, and value its
// content, nil if that is a number. It stops at the first error.
func fields(message []byte, each func(number protowire.Number, raw, value []byte) error) error {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return errMalformed
		}
		size := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if size < 0 {
			return errMalformed
		}
		raw := message[: tag+size : tag+size]
		var value []byte
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(raw[tag:])
		}
		if err := each(number, raw, value); err != nil {
			return err
		}
		message = message[tag+size:]
	}
	return nil
}

// within returns a message in which edit has replaced the content of the fields at a path.
func within(message []byte, path []protowire.Number, edit func(content []byte) ([]byte, error)) ([]byte, error) {
	if len(path) == 0 {
		return edit(message)
	}
	out := make([]byte, 0, len(message)+32)
	err := fields(message, func(number protowire.Number, raw, value []byte) error {
		if number != path[0] {
			out = append(out, raw...)
			return nil
		}
		content, err := within(value, path[1:], edit)
		out = field(out, number, content)
		return err
	})
	return out, err
}

// only returns the content of a message's one field of a number.
func only(message []byte, number protowire.Number) ([]byte, error) {
	var found []byte
	err := fields(message, func(n protowire.Number, _, value []byte) error {
		if n != number {
			return nil
		}
		if found != nil || value == nil {
			return errMalformed
		}
		found = value
		return nil
	})
	if err == nil && found == nil {
		err = errMalformed
	}
	return found, err
}

// mapEntries goes over the entries of a map, given as they stand in it.
func mapEntries(entries []byte, each func(matchValue string, raw []byte) error) error {
	return fields(entries, func(number protowire.Number, raw, value []byte) error {
		if number != mapEntry {
			return errMalformed
		}
		key, err := only(value, entryKey)
		if err != nil {
			return err
		}
		return each(string(key), raw)
	})
}

// routeIn reads the route in an entry.
func routeIn(raw []byte) (*routev3.Route, error) {
	inside, err := only(raw, mapEntry)
	if err != nil {
		return nil, err
	}
	value, err := only(inside, entryValue)
	if err != nil {
		return nil, err
	}
	match, route := &matcherv3.Matcher_OnMatch{}, &routev3.Route{}
	if err := proto.Unmarshal(value, match); err != nil {
		return nil, err
	}
	if err := match.GetAction().GetTypedConfig().UnmarshalTo(route); err != nil {
		return nil, err
	}
	return route, nil
}

// spliced puts a map into a head: the virtual host as if it had been written with
// it, in pieces. Without entries there is none, for Envoy refuses an empty one.
func spliced(head, input []byte, entries [][]byte) ([][]byte, error) {
	if len(entries) == 0 {
		return [][]byte{head}, nil
	}
	var out [][]byte
	found := false
	err := fields(head, func(number protowire.Number, raw, value []byte) error {
		if number != hostMatcher {
			out = append(out, raw)
			return nil
		}
		if found || value == nil {
			return errMalformed
		}
		found = true
		by := field(nil, treeInput, input)
		in := appendHeader(by, treeMap, total(entries))
		tree := appendHeader(nil, matcherTree, len(in)+total(entries))
		matcher := appendHeader(nil, hostMatcher, len(value)+len(tree)+len(in)+total(entries))
		out = append(append(out, matcher, value, tree, in), entries...)
		return nil
	})
	if err == nil && !found {
		err = errMalformed
	}
	return out, err
}

func total(pieces [][]byte) int {
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	return size
}

func appendHeader(b []byte, number protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(size))
}

// sizeOfField is the size of a field with so many bytes in it, tag and length
// included. The numbers of the fields that it is asked for take one byte.
func sizeOfField(size int) int { return 1 + protowire.SizeBytes(size) }
