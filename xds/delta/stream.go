package delta

import (
	"fmt"
	"slices"
	"strconv"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"switchyard.dev/xds/translate"
)

// Limits of one stream.
const (
	// MaxNames is how many names of one type a client may subscribe to.
	MaxNames = 10_000
	// wildcard subscribes to everything there is.
	wildcard = "*"
	// MaxVersion bounds the length of a version in a client's list. The server's own versions
	// are shorter, so a longer one is ignored.
	MaxVersion = 64
	// MaxWords is how many bytes of a client's error message are kept.
	MaxWords = 2 << 10
)

// Stream is the state of one stream. Make one with New; use it from one
// goroutine.
type Stream struct {
	allows func(typeURL, name string) error
	types  []string
	byType []*subscriptions // as types are; nil for types that were not requested
	nonces uint64
}

// New returns a stream on which resources of these types may be asked for, to be
// sent in this order. The function allows returns an error, which ends the
// stream, for a name that this client may not have.
func New(types []string, allows func(typeURL, name string) error) *Stream {
	return &Stream{allows: allows, types: types, byType: make([]*subscriptions, len(types))}
}

// InvalidError is a request that breaks the protocol or a limit. The stream
// ends.
type InvalidError struct{ Reason string }

// Error returns which rule was broken.
func (e *InvalidError) Error() string { return e.Reason }

// Receive takes in a request, and reports whether it settled the response that
// was under way: by accepting or by refusing it. An error ends the stream: an
// *InvalidError, or what allows gave.
func (s *Stream) Receive(r *discoveryv3.DeltaDiscoveryRequest) (settled bool, err error) {
	i := slices.Index(s.types, r.GetTypeUrl())
	if i < 0 {
		return false, &InvalidError{fmt.Sprintf("resources of type %.200q are not served here", r.GetTypeUrl())}
	}
	subs := s.byType[i]
	again := subs != nil
	if !again {
		if len(r.GetResourceNamesSubscribe()) == 0 {
			return false, &InvalidError{"a first request without names asks for everything: ask for resources by name"}
		}
		subs = &subscriptions{typeURL: s.types[i], together: s.types[i] == translate.PartType}
		s.byType[i] = subs
	}
	for _, name := range r.GetResourceNamesSubscribe() {
		if name == wildcard {
			return false, &InvalidError{"wildcards are not served: ask for resources by name"}
		}
		if err := s.allows(subs.typeURL, name); err != nil {
			return false, err
		}
	}
	if err := subs.subscribe(r.GetResourceNamesSubscribe()); err != nil {
		return false, err
	}
	if !again {
		subs.hasAlready(r.GetInitialResourceVersions())
	}
	for _, name := range r.GetResourceNamesUnsubscribe() {
		subs.unsubscribe(name)
	}
	return subs.settle(r), nil
}

// Due reports whether Next would give a response. It costs one pass over names and
// resources, and keeps nothing.
func (s *Stream) Due(resources []translate.Resource) bool {
	return slices.ContainsFunc(s.byType, func(subs *subscriptions) bool {
		return subs != nil && subs.pending == nil && subs.lacks(resources)
	})
}

// Next returns the response that is due now, of the first type that has one, given
// all resources that there are for this client, sorted by type and name. Nil when
// there is none: the client has everything, has refused it, or has not answered
// the last one.
func (s *Stream) Next(resources []translate.Resource) *Response {
	for _, subs := range s.byType {
		if subs == nil || subs.pending != nil || !subs.lacks(resources) {
			continue
		}
		response := subs.due(resources)
		s.nonces++
		response.Nonce = strconv.FormatUint(s.nonces, 10)
		subs.pending.nonce = response.Nonce
		return response
	}
	return nil
}

// Size is what the client makes the stream hold: how many names of all types, and
// about how many bytes.
func (s *Stream) Size() (names, bytes int) {
	for _, subs := range s.byType {
		if subs != nil {
			names += len(subs.names)
			bytes += subs.bytes
		}
	}
	return names, bytes
}
