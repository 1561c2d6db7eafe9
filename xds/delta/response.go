package delta

import (
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/xds/translate"
)

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
