package main

import (
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// response contains the fields of a response that the measuring client decodes: versions of
// resources, but not their content. The processor time of clients would otherwise reduce that of
// the server, on the same machine.
type response struct {
	nonce    string
	versions map[string]string // by name
	removed  []string
}

// lazily is the codec of the clients.
type lazily struct{}

// Name implements encoding.CodecV2: on the wire it is protobuf.
func (lazily) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (lazily) Marshal(v any) (mem.BufferSlice, error) {
	b, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

// Unmarshal implements encoding.CodecV2.
func (lazily) Unmarshal(data mem.BufferSlice, v any) error {
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	r := v.(*response)
	*r = response{versions: map[string]string{}}
	return fields(b.ReadOnlyData(), func(number protowire.Number, value []byte) error {
		switch number {
		case inResponse("nonce"):
			r.nonce = string(value)
		case inResponse("removed_resources"):
			r.removed = append(r.removed, string(value))
		case inResponse("resources"):
			return r.resource(value)
		}
		return nil
	})
}

func (r *response) resource(b []byte) error {
	var name, version string
	err := fields(b, func(number protowire.Number, value []byte) error {
		switch number {
		case inResource("name"):
			name = string(value)
		case inResource("version"):
			version = string(value)
		}
		return nil
	})
	r.versions[name] = version
	return err
}

// fields calls a function with each field of a message that has a length.
func fields(b []byte, each func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("read a response: %w", protowire.ParseError(n))
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return fmt.Errorf("read a response: %w", protowire.ParseError(n))
			}
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return fmt.Errorf("read a response: %w", protowire.ParseError(n))
		}
		b = b[n:]
		if err := each(number, value); err != nil {
			return err
		}
	}
	return nil
}

var (
	responseFields = (&discoveryv3.DeltaDiscoveryResponse{}).ProtoReflect().Descriptor().Fields()
	resourceFields = (&discoveryv3.Resource{}).ProtoReflect().Descriptor().Fields()
)

func inResponse(name protoreflect.Name) protowire.Number { return responseFields.ByName(name).Number() }
func inResource(name protoreflect.Name) protowire.Number { return resourceFields.ByName(name).Number() }
