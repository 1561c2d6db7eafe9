package serve

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"switchyard.dev/xds/delta"
)

// codec is gRPC's codec for protobuf, with two differences: a response is sent in the pieces
// that it shares with others, so that nothing is marshaled for each client, and of a request
// only the fields in use are read (readRequest).
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	response, ok := v.(*delta.Response)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	pieces, err := response.Pieces()
	if err != nil {
		return nil, err
	}
	out := make(mem.BufferSlice, 0, len(pieces))
	for _, p := range pieces {
		out = append(out, mem.SliceBuffer(p))
	}
	return out, nil
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	request, ok := v.(*discoveryv3.DeltaDiscoveryRequest)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	return readRequest(b.ReadOnlyData(), request)
}
