package devmesh

import (
	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	skipv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/matcher/action/v3"
	filterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	headermutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	setfilterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	envoymatcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"switchyard.dev/xds/translate"
)

// explainHeader asks for answers that say how the request was routed.
const explainHeader = "sd-explain"

// KeyHeader says, to those who ask, which routing key was read; it is absent
// when there was none.
const KeyHeader = "sd-key"

// http routes requests and otherwise keeps its hands off them: no deadlines, no
// request id, no forwarded-for, no normalised path, the server's own name.
func (b *builder) http() *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		StatPrefix: "inbound",
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			RouteConfigName: translate.RouteName(b.Workload),
			ConfigSource: &corev3.ConfigSource{
				ResourceApiVersion:    corev3.ApiVersion_V3,
				ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
				// Wait for routes before taking connections: without any, Envoy
				// would answer 404. The program next door always has some.
				InitialFetchTimeout: durationpb.New(0),
			},
		}},
		HttpFilters: []*hcmv3.HttpFilter{
			// The routes bring the custom headers (package translate).
			b.httpFilter(translate.KeyFilter, translate.KeyExtraction(nil)),
			b.httpFilter("envoy.filters.http.set_filter_state", matchValueToState()),
			b.httpFilter("signadot.com/explain", b.explain()),
			b.httpFilter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: true}),
		},
		CommonHttpProtocolOptions:  commonHTTP(0, 0),
		HttpProtocolOptions:        http1(),
		Http2ProtocolOptions:       http2(),
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		StreamIdleTimeout:          durationpb.New(0),
		RequestTimeout:             durationpb.New(0),
		RequestHeadersTimeout:      durationpb.New(headersTimeout),
		DrainTimeout:               durationpb.New(finalNotice),
		DelayedCloseTimeout:        durationpb.New(delayedClose),
		UseRemoteAddress:           wrapperspb.Bool(false),
		SkipXffAppend:              true,
		GenerateRequestId:          wrapperspb.Bool(false),
		PreserveExternalRequestId:  true,
		Proxy_100Continue:          true,
		NormalizePath:              wrapperspb.Bool(false),
		UpgradeConfigs:             []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		LocalReplyConfig:           failures(),
	}
}

// matchValueToState computes what routes are matched by: the port that the
// connection wanted and the key, in the form of translate.MatchValue. It is done
// once, before the route is looked for.
func matchValueToState() *setfilterstatev3.Config {
	const value = "%DOWNSTREAM_LOCAL_PORT%/%DYNAMIC_METADATA(" + translate.MetadataNamespace + ":" + translate.KeyName + ")%"
	return &setfilterstatev3.Config{
		ClearRouteCache: true,
		OnRequestHeaders: []*filterstatev3.FilterStateValue{{
			Key:        &filterstatev3.FilterStateValue_ObjectKey{ObjectKey: translate.FilterStateKey},
			FactoryKey: "envoy.string",
			Value:      &filterstatev3.FilterStateValue_FormatString{FormatString: format(value)},
		}},
	}
}

// explain adds, for those who ask, what decided. Others pay for one look at one
// header.
func (b *builder) explain() *matchingv3.ExtensionWithMatcher {
	add := func(name, value string) *mutationv3.HeaderMutation {
		return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Append{Append: set(name, value)}}
	}
	asked := &matcherv3.Matcher_MatcherList_Predicate{
		MatchType: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{
			SinglePredicate: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
				Input: b.matchExtension("header", &envoymatcherv3.HttpRequestHeaderMatchInput{HeaderName: explainHeader}),
				Matcher: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{
					ValueMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "1"}},
				},
			},
		},
	}
	skip := &matcherv3.Matcher_OnMatch{OnMatch: &matcherv3.Matcher_OnMatch_Action{
		Action: b.matchExtension("skip", &skipv3.SkipFilter{}),
	}}
	return &matchingv3.ExtensionWithMatcher{
		ExtensionConfig: &corev3.TypedExtensionConfig{
			Name: "envoy.filters.http.header_mutation",
			TypedConfig: b.any(&headermutationv3.HeaderMutation{Mutations: &headermutationv3.Mutations{
				ResponseMutations: []*mutationv3.HeaderMutation{
					add(translate.RoutedHeader, "%ROUTE_NAME%"),
					add(KeyHeader, "%DYNAMIC_METADATA("+translate.MetadataNamespace+":"+translate.KeyName+")%"),
					add(translate.TableHeader, "%METADATA(VIRTUAL_HOST:"+translate.MetadataNamespace+":"+translate.TableKey+")%"),
				},
			}}),
		},
		XdsMatcher: &matcherv3.Matcher{MatcherType: &matcherv3.Matcher_MatcherList_{MatcherList: &matcherv3.Matcher_MatcherList{
			Matchers: []*matcherv3.Matcher_MatcherList_FieldMatcher{{
				Predicate: &matcherv3.Matcher_MatcherList_Predicate{
					MatchType: &matcherv3.Matcher_MatcherList_Predicate_NotMatcher{NotMatcher: asked},
				},
				OnMatch: skip,
			}},
		}}},
	}
}

// failures puts a reason on the answers that Envoy gives in place of a
// destination that it could not reach.
func failures() *hcmv3.LocalReplyConfig {
	reason := func(reason string, flags ...string) *hcmv3.ResponseMapper {
		return &hcmv3.ResponseMapper{
			Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
				ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: flags},
			}},
			HeadersToAdd: []*corev3.HeaderValueOption{
				set(translate.ReasonHeader, reason), set(translate.RoutedHeader, "%ROUTE_NAME%"),
			},
		}
	}
	return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{
		reason(translate.ReasonUnreachable, "UF", "UH", "NC", "UO"),
		reason(translate.ReasonReset, "UC", "UR", "UPE", "URX", "UT"),
	}}
}

func set(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

func format(text string) *corev3.SubstitutionFormatString {
	return &corev3.SubstitutionFormatString{
		OmitEmptyValues: true,
		Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: text},
		}},
	}
}

func (b *builder) matchExtension(name string, config proto.Message) *xdscorev3.TypedExtensionConfig {
	return &xdscorev3.TypedExtensionConfig{Name: name, TypedConfig: b.any(config)}
}

func (b *builder) httpFilter(name string, config proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: b.any(config)}}
}
