package delta

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/xds/translate"
)

// subscriptions are those of one type.
type subscriptions struct {
	typeURL string
	// together is true when the client keeps all resources of a response whatever it answers.
	together bool
	// names are the subscribed names, sorted, with the state of each.
	names []*known
	// bytes is their approximate size in memory.
	bytes int
	// pending is the response that the client has not answered yet.
	pending *pending
}

// known is what the client has of one resource.
type known struct {
	name string
	// sent and acked are versions, "" for none.
	sent, acked string
	// has is the version that it need not be sent, "" for none.
	has string
	// refusals are those of the client, nil for none: a rare thing, and there is
	// one known for each name on each stream.
	refusals *refusals
	// toldAbsent: the client has been sent a removal for this name.
	toldAbsent bool
	// under is the version in the response in flight, "" for none; removal is true if that
	// response removes the name.
	under   string
	removal bool
}

// refusals are the versions of one resource that a client refused.
type refusals struct {
	// rejected is the last one since it accepted another, and why.
	rejected, why string
	// all that it ever refused, the last maxRefused.
	all []string
}

// maxRefused is how many versions are remembered that a client refused.
const maxRefused = 256

type pending struct {
	nonce          string
	sent, withdraw []*known
}

// find returns the place of a name.
func (s *subscriptions) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.names, name, func(k *known, name string) int { return cmp.Compare(k.name, name) })
}

// subscribe adds names. Those there are already are to be sent again.
func (s *subscriptions) subscribe(names []string) error {
	var fresh []*known
	for _, name := range names {
		if i, asked := s.find(name); asked {
			s.names[i].again()
			continue
		}
		if len(s.names)+len(fresh) >= MaxNames {
			return &InvalidError{fmt.Sprintf("more than %d names", MaxNames)}
		}
		fresh = append(fresh, &known{name: name})
	}
	if fresh == nil {
		return nil
	}
	s.names = append(s.names, fresh...)
	slices.SortStableFunc(s.names, func(a, b *known) int { return cmp.Compare(a.name, b.name) })
	s.names = slices.CompactFunc(s.names, func(a, b *known) bool { return a.name == b.name })
	s.count()
	return nil
}

// again resets the state after a new subscription. The resource is sent again unless it was
// refused, and the answer to a response in flight no longer applies to it.
func (k *known) again() { k.acked, k.has, k.toldAbsent, k.under, k.removal = "", "", false, "", false }

func (s *subscriptions) unsubscribe(name string) {
	if i, asked := s.find(name); asked {
		s.names[i].again()
		s.names = slices.Delete(s.names, i, i+1)
		s.count()
	}
}

// hasAlready takes in which versions the client has from earlier.
func (s *subscriptions) hasAlready(versions map[string]string) {
	for name, version := range versions {
		if i, asked := s.find(name); asked && len(version) <= MaxVersion {
			k := s.names[i]
			k.sent, k.acked, k.has = version, version, version
		}
	}
	s.count()
}

// count recomputes bytes.
func (s *subscriptions) count() {
	s.bytes = 0
	for _, k := range s.names {
		s.bytes += int(unsafe.Sizeof(*k)) + len(k.name) + len(k.sent)
		if k.refusals != nil {
			s.bytes += int(unsafe.Sizeof(*k.refusals)) + len(k.refusals.why) + 16*cap(k.refusals.all)
		}
	}
}

// settle takes in the client's answer to the response under way.
func (s *subscriptions) settle(r *discoveryv3.DeltaDiscoveryRequest) bool {
	if s.pending == nil || r.GetResponseNonce() != s.pending.nonce {
		return false
	}
	why := ""
	if r.GetErrorDetail() != nil {
		words := r.GetErrorDetail().GetMessage()
		why = strings.Clone(words[:min(len(words), MaxWords)])
	}
	for _, k := range s.pending.sent {
		version := k.under
		switch {
		case version == "": // the client has changed its mind about it since
			continue
		case r.GetErrorDetail() == nil:
			k.acked, k.has = version, version
			if k.refusals != nil {
				k.refusals.rejected, k.refusals.why = "", ""
			}
		default:
			k.refuse(version, why)
			if s.together {
				k.has = version
			}
		}
		k.under = ""
	}
	for _, k := range s.pending.withdraw {
		if k.removal {
			k.acked, k.has, k.removal = "", "", false
		}
	}
	s.pending = nil
	if r.GetErrorDetail() != nil {
		s.count()
	}
	return true
}

func (k *known) refuse(version, why string) {
	k.refusals = cmp.Or(k.refusals, &refusals{})
	r := k.refusals
	r.rejected, r.why = version, why
	if len(r.all) == maxRefused {
		r.all = slices.Delete(r.all, 0, 1)
	}
	r.all = append(r.all, version)
}

// refused reports whether the client has refused a version.
func (k *known) refused(version string) bool {
	return k.refusals != nil && slices.Contains(k.refusals.all, version)
}

// needs reports whether version must be sent to the client. Parts must be the ones that the
// client was sent last, so they are sent when they differ. Other resources are not sent if they
// were ever refused.
func (s *subscriptions) needs(k *known, version string) bool {
	return version != k.has && (s.together || !k.refused(version))
}

// each goes over the names with the resource of each, nil if there is none, until
// it returns false. Both are sorted.
func (s *subscriptions) each(resources []translate.Resource, f func(*known, *translate.Resource) bool) {
	i := 0
	for i < len(resources) && resources[i].Type < s.typeURL {
		i++
	}
	ours := func() bool { return i < len(resources) && resources[i].Type == s.typeURL }
	for _, k := range s.names {
		for ours() && resources[i].Name != k.name && resources[i].Name < k.name {
			i++
		}
		var r *translate.Resource
		if ours() && resources[i].Name == k.name {
			r = &resources[i]
			k.name = r.Name // one text for all streams, which is compared faster too
			i++
		}
		if !f(k, r) {
			return
		}
	}
}

// lacks reports whether the client is missing a version or a removal.
func (s *subscriptions) lacks(resources []translate.Resource) bool {
	found := false
	s.each(resources, func(k *known, r *translate.Resource) bool {
		if r == nil {
			found = !k.toldAbsent
		} else {
			found = s.needs(k, r.Version)
		}
		return !found
	})
	return found
}

// due returns what the client lacks, without a nonce, and notes it as under way.
func (s *subscriptions) due(resources []translate.Resource) *Response {
	response, under := &Response{Type: s.typeURL}, &pending{}
	s.each(resources, func(k *known, r *translate.Resource) bool {
		switch {
		case r == nil:
			if !k.toldAbsent {
				k.toldAbsent, k.sent, k.removal = true, "", true
				under.withdraw = append(under.withdraw, k)
				response.Removed = append(response.Removed, k.name)
			}
			return true
		case !s.needs(k, r.Version):
		default:
			if k.acked == r.Version {
				k.acked = "" // it does not have it any more
			}
			k.sent, k.under = r.Version, r.Version
			under.sent = append(under.sent, k)
			response.Resources = append(response.Resources, *r)
		}
		k.toldAbsent = false
		return true
	})
	s.pending = under
	return response
}

// Response is a delta discovery response. It is a protobuf message to anyone who
// wants one; Pieces writes it without copying what many responses share.
type Response struct {
	// Type is the type URL of all resources.
	Type, Nonce string
	Resources   []translate.Resource
	// Removed are the names of resources that there are not.
	Removed []string
}

// Message returns the response as protobuf has it.
func (r *Response) Message() *discoveryv3.DeltaDiscoveryResponse {
	m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: r.Type, Nonce: r.Nonce, RemovedResources: r.Removed}
	for _, one := range r.Resources {
		m.Resources = append(m.Resources, &discoveryv3.Resource{Name: one.Name, Version: one.Version, Resource: one.Any})
	}
	return m
}

// ProtoReflect makes it a protobuf message.
func (r *Response) ProtoReflect() protoreflect.Message { return r.Message().ProtoReflect() }

// Fields of a DeltaDiscoveryResponse.
const typeField, nonceField, removedField = 4, 5, 6

// Pieces returns the response as written, in pieces that follow each other. Those of
// resources that were written before (translate.Resource.Encoded) are shared with
// other responses: read only.
func (r *Response) Pieces() ([][]byte, error) {
	pieces := make([][]byte, 0, len(r.Resources)+1)
	for _, one := range r.Resources {
		if one.Encoded != nil {
			pieces = append(pieces, one.Encoded)
			continue
		}
		written, err := proto.Marshal((&Response{Resources: []translate.Resource{one}}).Message())
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", one.Name, err)
		}
		pieces = append(pieces, written)
	}
	size := len(r.Type) + len(r.Nonce) + 16
	for _, name := range r.Removed {
		size += len(name) + 4
	}
	own := make([]byte, 0, size)
	text := func(number protowire.Number, value string) {
		own = protowire.AppendTag(own, number, protowire.BytesType)
		own = protowire.AppendString(own, value)
	}
	text(typeField, r.Type)
	text(nonceField, r.Nonce)
	for _, name := range r.Removed {
		text(removedField, name)
	}
	return append(pieces, own), nil
}
