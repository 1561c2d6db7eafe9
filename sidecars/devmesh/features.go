package devmesh

import (
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// features sets what Envoy has no other setting for.
func (b *builder) features() *bootstrapv3.LayeredRuntime {
	layer, err := structpb.NewStruct(map[string]any{
		// The pattern of passedOver, and that which finds keys in baggage, take more than the
		// 100 steps that are the default.
		"re2.max_program_size.error_level": 500,
		// A fragment, which no client should send, is left out and not refused.
		"envoy.reloadable_features.http_reject_path_with_fragment": false,
		// Bytes beyond a chunk's length are refused, not passed over.
		"envoy.reloadable_features.strict_chunk_parsing": true,
	})
	if err != nil && b.err == nil {
		b.err = err
	}
	return &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{
		Name: "features", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: layer},
	}}}
}
