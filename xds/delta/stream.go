package delta

import (
	"fmt"
	"maps"
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
)

// Stream is the state of one stream. Make one with New; use it from one
// goroutine.
type Stream struct {
	allows func(typeURL, name string) error
	types  []string
	byType map[string]*subscriptions
	nonces uint64
}

// subscriptions are those of one type.
type subscriptions struct {
	// names that the client has asked for, with what is known of each.
	names map[string]*known
	// pending is the response that the client has not answered yet.
	pending *pending
}

// known is what the client has of one resource.
type known struct {
	// sent and acked are versions, "" for none.
	sent, acked string
	// rejected is the last version that the client refused, and why.
	rejected, why string
	// toldAbsent: the client was told that there is no such resource.
	toldAbsent bool
}

type pending struct {
	nonce    string
	versions map[string]string
	removed  []string
}

// New gives a stream on which resources of these types may be asked for, to be
// sent in this order. The function allows returns an error, which ends the
// stream, for a name that this client may not have.
func New(types []string, allows func(typeURL, name string) error) *Stream {
	return &Stream{allows: allows, types: types, byType: map[string]*subscriptions{}}
}

// InvalidError is a request that breaks the protocol or a limit. The stream
// ends.
type InvalidError struct{ Reason string }

// Error says which rule was broken.
func (e *InvalidError) Error() string { return e.Reason }

// Receive takes in a request, and tells whether it settled the response that
// was under way: by accepting or by refusing it. An error ends the stream: an
// *InvalidError, or what allows gave.
func (s *Stream) Receive(r *discoveryv3.DeltaDiscoveryRequest) (settled bool, err error) {
	if !slices.Contains(s.types, r.GetTypeUrl()) {
		return false, &InvalidError{fmt.Sprintf("resources of type %.200q are not served here", r.GetTypeUrl())}
	}
	subs, again := s.byType[r.GetTypeUrl()]
	if !again {
		if len(r.GetResourceNamesSubscribe()) == 0 {
			return false, &InvalidError{"a first request without names asks for everything: ask for resources by name"}
		}
		subs = &subscriptions{names: map[string]*known{}}
		s.byType[r.GetTypeUrl()] = subs
	}
	if err := s.subscribe(subs, r); err != nil {
		return false, err
	}
	if !again {
		for name, version := range r.GetInitialResourceVersions() {
			if k, asked := subs.names[name]; asked {
				k.sent, k.acked = version, version
			}
		}
	}
	for _, name := range r.GetResourceNamesUnsubscribe() {
		delete(subs.names, name)
		subs.overtake(name)
	}
	return subs.settle(r), nil
}

func (s *Stream) subscribe(subs *subscriptions, r *discoveryv3.DeltaDiscoveryRequest) error {
	for _, name := range r.GetResourceNamesSubscribe() {
		if name == wildcard {
			return &InvalidError{"wildcards are not served: ask for resources by name"}
		}
		if err := s.allows(r.GetTypeUrl(), name); err != nil {
			return err
		}
		if k, asked := subs.names[name]; asked {
			// Asked for again: it is sent again, unless it was refused.
			k.acked, k.toldAbsent = "", false
			subs.overtake(name)
			continue
		}
		if len(subs.names) >= MaxNames {
			return &InvalidError{fmt.Sprintf("more than %d names", MaxNames)}
		}
		subs.names[name] = &known{}
	}
	return nil
}

// overtake makes the answer to the response under way say nothing about a name:
// the client has changed its mind about it since.
func (s *subscriptions) overtake(name string) {
	if s.pending != nil {
		delete(s.pending.versions, name)
	}
}

// settle takes in the client's answer to the response under way.
func (s *subscriptions) settle(r *discoveryv3.DeltaDiscoveryRequest) bool {
	if s.pending == nil || r.GetResponseNonce() != s.pending.nonce {
		return false
	}
	for name, version := range s.pending.versions {
		k, asked := s.names[name]
		switch {
		case !asked:
		case r.GetErrorDetail() != nil:
			k.rejected, k.why = version, r.GetErrorDetail().GetMessage()
		default:
			k.acked, k.rejected, k.why = version, "", ""
		}
	}
	for _, name := range s.pending.removed {
		if k, asked := s.names[name]; asked {
			k.acked = ""
		}
	}
	s.pending = nil
	return true
}

// Next gives the response that is due now, of the first type that has one, given
// all resources that there are for this client. Nil when there is none: the
// client has everything, has refused it, or has not answered the last one.
func (s *Stream) Next(resources []translate.Resource) *discoveryv3.DeltaDiscoveryResponse {
	for _, typeURL := range s.types {
		subs := s.byType[typeURL]
		if subs == nil || subs.pending != nil {
			continue
		}
		response := subs.due(typeURL, resources)
		if response == nil {
			continue
		}
		s.nonces++
		response.Nonce = strconv.FormatUint(s.nonces, 10)
		subs.pending.nonce = response.Nonce
		return response
	}
	return nil
}

// due gives what the client lacks, without a nonce, and notes it as under way.
func (s *subscriptions) due(typeURL string, resources []translate.Resource) *discoveryv3.DeltaDiscoveryResponse {
	response := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL}
	under := &pending{versions: map[string]string{}}
	present := map[string]bool{}
	for _, r := range resources {
		k, asked := s.names[r.Name]
		if r.Type != typeURL || !asked {
			continue
		}
		present[r.Name], k.toldAbsent = true, false
		if r.Version == k.acked || r.Version == k.rejected {
			continue
		}
		k.sent = r.Version
		under.versions[r.Name] = r.Version
		response.Resources = append(response.Resources, &discoveryv3.Resource{Name: r.Name, Version: r.Version, Resource: r.Any})
	}
	for _, name := range slices.Sorted(maps.Keys(s.names)) {
		if k := s.names[name]; !present[name] && !k.toldAbsent {
			k.toldAbsent, k.sent = true, ""
			under.removed = append(under.removed, name)
		}
	}
	response.RemovedResources = under.removed
	if len(response.Resources)+len(under.removed) == 0 {
		return nil
	}
	s.pending = under
	return response
}

// Status is what is known of one resource at this client.
type Status struct {
	Type, Name string
	// Sent is the version that was sent last and Acked the last one accepted;
	// either may be "". They are the same when the client is current.
	Sent, Acked string
	// Rejected is the last version that the client refused since it accepted
	// one, and Error its words; "" when it refused none.
	Rejected, Error string
}

// InFlight tells whether a version was sent that the client has neither accepted
// nor refused.
func (s Status) InFlight() bool { return s.Sent != "" && s.Sent != s.Acked && s.Sent != s.Rejected }

// Statuses gives the state of every subscription, sorted by type and name.
func (s *Stream) Statuses() []Status {
	var all []Status
	for _, typeURL := range slices.Sorted(maps.Keys(s.byType)) {
		names := s.byType[typeURL].names
		for _, name := range slices.Sorted(maps.Keys(names)) {
			k := names[name]
			all = append(all, Status{
				Type: typeURL, Name: name,
				Sent: k.sent, Acked: k.acked, Rejected: k.rejected, Error: k.why,
			})
		}
	}
	return all
}
