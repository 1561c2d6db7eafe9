package devmesh

import (
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	headermutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"switchyard.dev/xds/translate"
)

// KeyHeader is the header of an answer that names the routing key that was read; it is
// absent when there was none.
const KeyHeader = "sd-key"

// refuse answers 400.
func refuse() *faultv3.HTTPFault {
	return &faultv3.HTTPFault{Abort: &faultv3.FaultAbort{
		ErrorType:  &faultv3.FaultAbort_HttpStatus{HttpStatus: 400},
		Percentage: &typev3.FractionalPercent{Numerator: 100},
	}}
}

// explain adds what decided.
func explain() *headermutationv3.HeaderMutation {
	add := func(name, value string) *mutationv3.HeaderMutation {
		return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Append{Append: set(name, value)}}
	}
	return &headermutationv3.HeaderMutation{Mutations: &headermutationv3.Mutations{
		ResponseMutations: []*mutationv3.HeaderMutation{
			add(translate.RoutedHeader, "%ROUTE_NAME%"),
			add(KeyHeader, "%DYNAMIC_METADATA("+translate.MetadataNamespace+":"+translate.KeyName+")%"),
			add(translate.TableHeader, "%METADATA(VIRTUAL_HOST:"+translate.MetadataNamespace+":"+translate.TableKey+")%"),
		},
	}}
}
