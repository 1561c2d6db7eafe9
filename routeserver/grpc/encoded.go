package routesgrpc

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/lists"
	routesv1 "switchyard.dev/protos/gen/routes"
)

// encoded is an op in written form, to be sent to any number of watchers.
type encoded struct {
	op    routesv1.WatchOp
	bytes mem.SliceBuffer
	err   error // the encoding error, returned when it is sent
}

func encode(op *routesv1.WorkloadRoutingRuleOp) *encoded {
	b, err := protobuf.Marshal(op)
	return &encoded{op: op.GetOp(), bytes: b, err: err}
}

func encodeAll(ops []*routesv1.WorkloadRoutingRuleOp) []*encoded {
	return lists.Map(ops, encode)
}

// codec is the protobuf codec, which passes encoded messages through unchanged.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch is := v.(type) {
	case *encoded:
		return mem.BufferSlice{is.bytes}, is.err
	case *sharing:
		return mem.BufferSlice{is.buffer()}, nil
	}
	return c.CodecV2.Marshal(v)
}
