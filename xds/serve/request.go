package serve

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"switchyard.dev/xds/delta"
)

// Fields of a DeltaDiscoveryRequest, of an entry of its map, and of the status in
// it.
const (
	typeField, subscribeField, unsubscribeField = 2, 3, 4
	versionsField, nonceField, errorField       = 5, 6, 7
	keyField, valueField, wordsField            = 1, 2, 2
)

// readRequest decodes the fields of a request that are used, and no more than the limits allow:
// a request of maxRequest bytes could otherwise take many times that in memory before it is
// refused. It skips the client's description of itself (the node), names and versions beyond
// delta.MaxNames, versions that are too long to be the server's, and the details of an error.
// One name too many is read, so that the request is refused.
func readRequest(b []byte, r *discoveryv3.DeltaDiscoveryRequest) error {
	r.Reset()
	return eachField(b, func(number protowire.Number, value []byte) (err error) {
		switch number {
		case typeField:
			r.TypeUrl, err = text(value)
		case nonceField:
			r.ResponseNonce, err = text(value)
		case subscribeField:
			r.ResourceNamesSubscribe, err = oneMore(r.ResourceNamesSubscribe, value)
		case unsubscribeField:
			r.ResourceNamesUnsubscribe, err = oneMore(r.ResourceNamesUnsubscribe, value)
		case versionsField:
			err = readVersion(value, r)
		case errorField:
			err = readError(value, r)
		}
		return err
	})
}

func oneMore(names []string, value []byte) ([]string, error) {
	if len(names) > delta.MaxNames {
		return names, nil
	}
	name, err := text(value)
	return append(names, name), err
}

func readVersion(b []byte, r *discoveryv3.DeltaDiscoveryRequest) error {
	var name, version string
	long := false
	if err := eachField(b, func(number protowire.Number, value []byte) (err error) {
		switch number {
		case keyField:
			name, err = text(value)
		case valueField:
			if len(value) > delta.MaxVersion {
				long = true // not one of this server's versions
				return nil
			}
			version, err = text(value)
		}
		return err
	}); err != nil {
		return err
	}
	if long || len(r.InitialResourceVersions) >= delta.MaxNames {
		return nil
	}
	if r.InitialResourceVersions == nil {
		r.InitialResourceVersions = map[string]string{}
	}
	r.InitialResourceVersions[name] = version
	return nil
}

func readError(b []byte, r *discoveryv3.DeltaDiscoveryRequest) error {
	r.ErrorDetail = &statuspb.Status{}
	return eachField(b, func(number protowire.Number, value []byte) error {
		if number == wordsField {
			r.ErrorDetail.Message = strings.ToValidUTF8(string(value[:min(len(value), delta.MaxWords)]), "")
		}
		return nil
	})
}

var errText = errors.New("xds: a request has text that is not UTF-8")

func text(b []byte) (string, error) {
	if !utf8.Valid(b) {
		return "", errText
	}
	return string(b), nil
}

// eachField calls a function with each field of a message that has a length; the
// others are passed over.
func eachField(b []byte, f func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("xds: read a request: %w", protowire.ParseError(n))
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 {
			return fmt.Errorf("xds: read a request: %w", protowire.ParseError(size))
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b)
			if err := f(number, value); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}

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
