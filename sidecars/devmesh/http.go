package devmesh

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	filterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	setfilterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlymutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	envoymatcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/xds/translate"
)

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
		HttpFilters:                b.httpFilters(),
		CommonHttpProtocolOptions:  commonHTTP(idleConnection, 0),
		HttpProtocolOptions:        http1(),
		Http2ProtocolOptions:       http2ToClients(),
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
		MaxRequestHeadersKb:        wrapperspb.UInt32(headKiB),
		UpgradeConfigs:             upgrades(),
		EarlyHeaderMutationExtensions: []*corev3.TypedExtensionConfig{
			{Name: "envoy.http.early_header_mutation.header_mutation", TypedConfig: b.any(b.asSent())},
		},
		LocalReplyConfig: b.failures(),
	}
}

// httpFilters returns what requests pass. The routes switch on the filters that are off, for
// the requests that need them, and bring the custom headers (package translate).
func (b *builder) httpFilters() []*hcmv3.HttpFilter {
	filters := []*hcmv3.HttpFilter{b.switchedOff(translate.RefuseFilter, refuse())}
	if b.Edge {
		filters = append(filters, b.httpFilter(edgeFilter, dropKeys()))
	} else {
		filters = append(filters,
			b.switchedOff(translate.KeyFilter, translate.KeyExtraction(nil)),
			b.switchedOff(translate.MatchFilter, matchValueToState()),
			b.switchedOff(translate.DestinationFilter, &setfilterstatev3.Config{}), // the routes configure it
			b.switchedOff(translate.ExplainFilter, explain()))
	}
	return append(filters, b.httpFilter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: true}))
}

// asSent moves the client's x-forwarded-proto aside before Envoy sets it for clients that sent
// none. The routes restore it (package translate), so no other value may remain there. It also
// removes headers that ask Envoy to retry a request: only the sidecar decides that
// (connectAgain). (Envoy ignores these by itself unless the caller is internal, which with an
// empty list of internal addresses includes every client in a private network.)
func (b *builder) asSent() *earlymutationv3.HeaderMutation {
	const header = "x-forwarded-proto"
	remove := func(name string) *mutationv3.HeaderMutation {
		return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Remove{Remove: name}}
	}
	mutations := []*mutationv3.HeaderMutation{
		remove(translate.ProtoHeader),
		{Action: &mutationv3.HeaderMutation_Append{Append: set(translate.ProtoHeader, "%REQ("+header+")%")}},
		// Envoy finds no route for an empty one.
		remove(header),
		remove("x-envoy-retry-on"),
		remove("x-envoy-retry-grpc-on"),
		remove("x-envoy-hedge-on-per-try-timeout"),
	}
	if b.Edge {
		mutations = append(mutations, remove(translate.ExplainHeader))
	}
	return &earlymutationv3.HeaderMutation{Mutations: mutations}
}

// matchValueToState computes the value that routes are matched by: the port of the original
// destination and the key, in the form of translate.MatchValue. Envoy then selects the route
// again.
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

// unanswered is the body of an answer for a destination of a sandbox, or of what records its requests. A route has no text of its
// own: sidecars of earlier releases refuse routes with fields that they do not know.
const unanswered = "%ROUTE_NAME% holds this routing key, and its fork, its workstation or traffic-manager does not answer: %LOCAL_REPLY_BODY%\n"

// failures puts a reason on the answers that Envoy gives in place of a destination that it could
// not reach, and names the sandbox in the body where that is the destination.
func (b *builder) failures() *hcmv3.LocalReplyConfig {
	reason := func(reason string, flags ...string) []*hcmv3.ResponseMapper {
		failed := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
			ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: flags},
		}}
		mapper := func(f *accesslogv3.AccessLogFilter, body *corev3.SubstitutionFormatString) *hcmv3.ResponseMapper {
			return &hcmv3.ResponseMapper{Filter: f, BodyFormatOverride: body, HeadersToAdd: []*corev3.HeaderValueOption{
				set(translate.ReasonHeader, reason), set(translate.RoutedHeader, "%ROUTE_NAME%"),
			}}
		}
		ofSandbox := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
			AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{failed, b.sent()}},
		}}
		return []*hcmv3.ResponseMapper{mapper(ofSandbox, format(unanswered)), mapper(failed, nil)}
	}
	mappers := slices.Concat(
		reason(translate.ReasonUnreachable, "UF", "UH", "NC", "UO"),
		reason(translate.ReasonReset, "UC", "UR", "UPE", "URX", "UT"))
	return &hcmv3.LocalReplyConfig{Mappers: append(mappers, tooLong())}
}

// tooLong replaces Envoy's answer to a request with a body that outgrew the buffer for the next
// try (507, with no flag): the fork was not reached.
func tooLong() *hcmv3.ResponseMapper {
	return &hcmv3.ResponseMapper{
		Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
			StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
				Op:    accesslogv3.ComparisonFilter_EQ,
				Value: &corev3.RuntimeUInt32{DefaultValue: http.StatusInsufficientStorage, RuntimeKey: "unused"},
			}},
		}},
		StatusCode: wrapperspb.UInt32(http.StatusServiceUnavailable), BodyFormatOverride: format(unanswered),
		HeadersToAdd: []*corev3.HeaderValueOption{
			set(translate.ReasonHeader, translate.ReasonUnreachable), set(translate.RoutedHeader, "%ROUTE_NAME%"),
		},
	}
}

// sent matches requests that a route has sent to a sandbox.
func (b *builder) sent() *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
		ExtensionFilter: &accesslogv3.ExtensionFilter{
			Name: "envoy.access_loggers.extension_filters.cel",
			ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{TypedConfig: b.any(&celv3.ExpressionFilter{
				Expression: fmt.Sprintf("xds.cluster_name == %q", translate.ForksCluster),
			})},
		},
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

func (b *builder) switchedOff(name string, config proto.Message) *hcmv3.HttpFilter {
	f := b.httpFilter(name, config)
	f.Disabled = true
	return f
}

func (b *builder) httpFilter(name string, config proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: b.any(config)}}
}

// upgradeTypes are the protocols that a connection can be turned into: WebSocket,
// and what container runtimes and Kubernetes use for attach and exec. Envoy cannot let
// others through without their names.
func upgradeTypes() []string { return []string{"websocket", "tcp", "SPDY/3.1"} }

// upgrades lets those through. CONNECT is not among them: an application that answers
// every method with 200 would turn the connection into a tunnel past the routes.
func upgrades() []*hcmv3.HttpConnectionManager_UpgradeConfig {
	return lists.Map(upgradeTypes(), func(name string) *hcmv3.HttpConnectionManager_UpgradeConfig {
		return &hcmv3.HttpConnectionManager_UpgradeConfig{UpgradeType: name}
	})
}

// passedOver matches all other offers to speak something else. Envoy takes them out
// of the request: an application that knows none of them answers as if it had passed
// over them, as it should.
func passedOver() []*envoymatcherv3.StringMatcher {
	return []*envoymatcherv3.StringMatcher{{MatchPattern: &envoymatcherv3.StringMatcher_SafeRegex{
		SafeRegex: &envoymatcherv3.RegexMatcher{Regex: noneOf(upgradeTypes()...)},
	}}}
}

// noneOf is a pattern that matches every text but some words, in upper or lower case: a text
// that differs from them at some letter, ends too early or is longer. Envoy's patterns have no
// negation.
func noneOf(words ...string) string { return "(?i)" + unlike(words) }

func unlike(words []string) string {
	rests, whole := map[string][]string{}, false
	for _, w := range words {
		if w == "" {
			whole = true
			continue
		}
		rests[regexp.QuoteMeta(w[:1])] = append(rests[regexp.QuoteMeta(w[:1])], w[1:])
	}
	if len(rests) == 0 {
		return ".+"
	}
	firsts := slices.Sorted(maps.Keys(rests))
	parts := []string{"[^" + strings.Join(firsts, "") + "].*"}
	parts = append(parts, lists.Map(firsts, func(first string) string { return first + "(?:" + unlike(rests[first]) + ")" })...)
	if !whole {
		parts = append(parts, "")
	}
	return strings.Join(parts, "|")
}
