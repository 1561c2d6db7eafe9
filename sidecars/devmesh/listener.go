package devmesh

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"switchyard.dev/xds/translate"
)

// listener takes all redirected connections, finds out where they wanted to go
// and what they speak, and routes HTTP; everything else passes untouched.
func (b *builder) listener() *listenerv3.Listener {
	sniffed := plainPorts(b.PlainPorts)
	l := &listenerv3.Listener{
		Name:             "inbound",
		Address:          socket(b.ListenAddress, b.ListenPort),
		TrafficDirection: corev3.TrafficDirection_INBOUND,
		ListenerFilters: []*listenerv3.ListenerFilter{
			b.listenerFilter("envoy.filters.listener.original_dst", &originaldstv3.OriginalDst{}, nil),
			b.listenerFilter("envoy.filters.listener.tls_inspector", &tlsinspectorv3.TlsInspector{}, sniffed),
			b.listenerFilter("envoy.filters.listener.http_inspector", &httpinspectorv3.HttpInspector{}, sniffed),
		},
		ListenerFiltersTimeout:           durationpb.New(sniffTimeout),
		ContinueOnListenerFiltersTimeout: true,
		PerConnectionBufferLimitBytes:    buffer(),
		TcpKeepalive:                     keepalive(),
		FilterChains: []*listenerv3.FilterChain{{
			Name:             "http",
			FilterChainMatch: &listenerv3.FilterChainMatch{ApplicationProtocols: []string{"http/1.0", "http/1.1", "h2c"}},
			Filters:          []*listenerv3.Filter{b.filter("envoy.filters.network.http_connection_manager", b.http())},
		}},
		DefaultFilterChain: &listenerv3.FilterChain{
			Name: "tcp",
			Filters: []*listenerv3.Filter{b.filter("envoy.filters.network.tcp_proxy", &tcpproxyv3.TcpProxy{
				StatPrefix:       "tcp",
				ClusterSpecifier: &tcpproxyv3.TcpProxy_Cluster{Cluster: translate.AppCluster},
				// As long as the two ends like.
				IdleTimeout: durationpb.New(0),
			})},
		},
	}
	if b.ListenIPv6 {
		l.AdditionalAddresses = []*listenerv3.AdditionalAddress{{Address: socket("::", b.ListenPort)}}
	}
	return l
}

func (b *builder) listenerFilter(name string, config proto.Message, unless *listenerv3.ListenerFilterChainMatchPredicate) *listenerv3.ListenerFilter {
	return &listenerv3.ListenerFilter{
		Name:           name,
		ConfigType:     &listenerv3.ListenerFilter_TypedConfig{TypedConfig: b.any(config)},
		FilterDisabled: unless,
	}
}

func (b *builder) filter(name string, config proto.Message) *listenerv3.Filter {
	return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: b.any(config)}}
}

// plainPorts matches connections that wanted to go to one of the ports; nil for
// none.
func plainPorts(ports []uint32) *listenerv3.ListenerFilterChainMatchPredicate {
	var rules []*listenerv3.ListenerFilterChainMatchPredicate
	for _, port := range ports {
		rules = append(rules, &listenerv3.ListenerFilterChainMatchPredicate{
			Rule: &listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange{
				DestinationPortRange: &typev3.Int32Range{Start: int32(port), End: int32(port) + 1},
			},
		})
	}
	switch len(rules) {
	case 0:
		return nil
	case 1:
		return rules[0]
	}
	return &listenerv3.ListenerFilterChainMatchPredicate{Rule: &listenerv3.ListenerFilterChainMatchPredicate_OrMatch{
		OrMatch: &listenerv3.ListenerFilterChainMatchPredicate_MatchSet{Rules: rules},
	}}
}
