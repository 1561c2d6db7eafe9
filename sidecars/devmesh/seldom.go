package devmesh

import (
	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	headermutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	envoymatcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/xds/translate"
)

// explainHeader asks for answers that say how the request was routed.
const explainHeader = "sd-explain"

// KeyHeader says, to those who ask, which routing key was read; it is absent
// when there was none.
const KeyHeader = "sd-key"

// seldom holds what few requests need. The others pay for a look at two headers.
func (b *builder) seldom() *matchingv3.ExtensionWithMatcher {
	do := func(what string, config proto.Message, predicate *matcherv3.Matcher_MatcherList_Predicate) *matcherv3.Matcher_MatcherList_FieldMatcher {
		return &matcherv3.Matcher_MatcherList_FieldMatcher{
			Predicate: predicate,
			OnMatch: &matcherv3.Matcher_OnMatch{OnMatch: &matcherv3.Matcher_OnMatch_Action{
				Action: b.matchExtension("composite-action", &compositev3.ExecuteFilterAction{
					TypedConfig: &corev3.TypedExtensionConfig{Name: what, TypedConfig: b.any(config)},
				}),
			}},
		}
	}
	return &matchingv3.ExtensionWithMatcher{
		ExtensionConfig: &corev3.TypedExtensionConfig{Name: "composite", TypedConfig: b.any(&compositev3.Composite{})},
		XdsMatcher: &matcherv3.Matcher{MatcherType: &matcherv3.Matcher_MatcherList_{MatcherList: &matcherv3.Matcher_MatcherList{
			Matchers: []*matcherv3.Matcher_MatcherList_FieldMatcher{
				// Envoy joins several Host headers into one, which servers refuse.
				do("envoy.filters.http.fault", refuse(), b.header(":authority", &matcherv3.StringMatcher{
					MatchPattern: &matcherv3.StringMatcher_Contains{Contains: ","},
				})),
				do("envoy.filters.http.header_mutation", explain(), b.header(explainHeader, &matcherv3.StringMatcher{
					MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "1"},
				})),
			},
		}}},
	}
}

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

func (b *builder) header(name string, is *matcherv3.StringMatcher) *matcherv3.Matcher_MatcherList_Predicate {
	return &matcherv3.Matcher_MatcherList_Predicate{
		MatchType: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{
			SinglePredicate: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
				Input:   b.matchExtension("header", &envoymatcherv3.HttpRequestHeaderMatchInput{HeaderName: name}),
				Matcher: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: is},
			},
		},
	}
}

func (b *builder) matchExtension(name string, config proto.Message) *xdscorev3.TypedExtensionConfig {
	return &xdscorev3.TypedExtensionConfig{Name: name, TypedConfig: b.any(config)}
}
