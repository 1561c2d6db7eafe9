package devmesh

import (
	"fmt"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	headermutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	directresponsev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/direct_response/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"switchyard.dev/xds/translate"
)

// listener accepts all redirected connections and determines their original destination and
// their protocol. HTTP is routed. TLS, and the ports of protocols in which the server speaks
// first, pass untouched. A connection that was silent for too long, or has an unknown protocol,
// goes to LateSocket: a client may open a connection long before it sends its first request,
// and that must be routed too. So does HTTP/1.0, because Envoy takes every request line with an
// unknown version, or without one, for it: the program can distinguish them. A connection to
// the listener's own port, which was not redirected, is closed: passed on, it would return in a
// loop.
func (b *builder) listener() *listenerv3.Listener {
	unlessPlain := toPorts(append([]uint16{ListenerPort}, b.PlainPorts...))
	l := &listenerv3.Listener{
		Name:             "inbound",
		Address:          socket("0.0.0.0", ListenerPort),
		TrafficDirection: corev3.TrafficDirection_INBOUND,
		ListenerFilters: []*listenerv3.ListenerFilter{
			b.listenerFilter("envoy.filters.listener.original_dst", &originaldstv3.OriginalDst{}, nil),
			b.listenerFilter("envoy.filters.listener.tls_inspector", &tlsinspectorv3.TlsInspector{}, unlessPlain),
			b.listenerFilter("envoy.filters.listener.http_inspector", &httpinspectorv3.HttpInspector{}, unlessPlain),
		},
		ListenerFiltersTimeout:           durationpb.New(sniffTimeout),
		ContinueOnListenerFiltersTimeout: true,
		PerConnectionBufferLimitBytes:    buffer(connectionBuffer),
		TcpKeepalive:                     keepalive(),
		FilterChains: []*listenerv3.FilterChain{
			b.httpChain(&listenerv3.FilterChainMatch{ApplicationProtocols: []string{"http/1.1", "h2c"}}),
			b.tcpChain("tls", translate.AppCluster, &listenerv3.FilterChainMatch{TransportProtocol: "tls"}),
			b.closed(ListenerPort),
		},
		DefaultFilterChain: b.tcpChain("late", lateCluster, nil),
	}
	for _, port := range b.PlainPorts {
		if port == ListenerPort {
			continue
		}
		l.FilterChains = append(l.FilterChains, b.tcpChain(fmt.Sprintf("plain-%d", port), translate.AppCluster,
			toPort(port)))
	}
	if b.ListenIPv6 {
		l.AdditionalAddresses = []*listenerv3.AdditionalAddress{{Address: socket("::", ListenerPort)}}
	}
	return l
}

// lateHTTP takes the connections that turned out to speak HTTP after all, with
// where they wanted to go in a PROXY header.
func (b *builder) lateHTTP() *listenerv3.Listener {
	return &listenerv3.Listener{
		Name:             "late-http",
		Address:          pipe(b.LateHTTPSocket()),
		TrafficDirection: corev3.TrafficDirection_INBOUND,
		ListenerFilters: []*listenerv3.ListenerFilter{
			b.listenerFilter("envoy.filters.listener.proxy_protocol", &proxyprotocolv3.ProxyProtocol{}, nil),
		},
		PerConnectionBufferLimitBytes: buffer(lateBuffer),
		FilterChains:                  []*listenerv3.FilterChain{b.httpChain(nil)},
	}
}

func (b *builder) httpChain(match *listenerv3.FilterChainMatch) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{
		Name:             "http",
		FilterChainMatch: match,
		Filters:          []*listenerv3.Filter{b.filter("envoy.filters.network.http_connection_manager", b.http())},
	}
}

// tcpChain passes bytes on for as long as the two ends like.
func (b *builder) tcpChain(name, cluster string, match *listenerv3.FilterChainMatch) *listenerv3.FilterChain {
	prefix := "tcp"
	if cluster == lateCluster {
		prefix = "late"
	}
	return &listenerv3.FilterChain{
		Name:             name,
		FilterChainMatch: match,
		Filters: []*listenerv3.Filter{b.filter("envoy.filters.network.tcp_proxy", &tcpproxyv3.TcpProxy{
			StatPrefix:       prefix,
			ClusterSpecifier: &tcpproxyv3.TcpProxy_Cluster{Cluster: cluster},
			IdleTimeout:      durationpb.New(0),
		})},
	}
}

// closed ends connections to a port without a byte.
func (b *builder) closed(port uint16) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{
		Name:             fmt.Sprintf("closed-%d", port),
		FilterChainMatch: toPort(port),
		Filters: []*listenerv3.Filter{
			b.filter("envoy.filters.network.direct_response", &directresponsev3.Config{}),
		},
	}
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

// toPort matches connections that wanted to go to the port.
func toPort(port uint16) *listenerv3.FilterChainMatch {
	return &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(uint32(port))}
}

// toPorts matches connections that wanted to go to one of the ports.
func toPorts(ports []uint16) *listenerv3.ListenerFilterChainMatchPredicate {
	var rules []*listenerv3.ListenerFilterChainMatchPredicate
	for _, port := range ports {
		rules = append(rules, &listenerv3.ListenerFilterChainMatchPredicate{
			Rule: &listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange{
				DestinationPortRange: &typev3.Int32Range{Start: int32(port), End: int32(port) + 1},
			},
		})
	}
	if len(rules) == 1 {
		return rules[0]
	}
	return &listenerv3.ListenerFilterChainMatchPredicate{Rule: &listenerv3.ListenerFilterChainMatchPredicate_OrMatch{
		OrMatch: &listenerv3.ListenerFilterChainMatchPredicate_MatchSet{Rules: rules},
	}}
}

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

// Clusters that the routes do not name.
const (
	// xdsCluster is where Envoy gets its routes.
	xdsCluster = "xds"
	// lateCluster takes connections with a protocol that is not known yet.
	lateCluster = "late"
)

// Bootstrap returns the whole static configuration of the sidecar's Envoy. The
// error is Validate's. It is a function of its argument alone.
func Bootstrap(c Config) (*bootstrapv3.Bootstrap, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	b := &builder{Config: c}
	bootstrap := &bootstrapv3.Bootstrap{
		Node:  &corev3.Node{Id: c.NodeID, Cluster: c.Workload.Namespace + "/" + c.Workload.Name},
		Admin: &bootstrapv3.Admin{Address: pipe(c.AdminSocket())},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{AdsConfig: &corev3.ApiConfigSource{
			ApiType:             corev3.ApiConfigSource_DELTA_GRPC,
			TransportApiVersion: corev3.ApiVersion_V3,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: xdsCluster},
			}}},
		}},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Listeners: []*listenerv3.Listener{b.listener(), b.lateHTTP()},
			Clusters:  []*clusterv3.Cluster{b.app(), b.forks(), b.late(), b.xds()},
		},
		OverloadManager: b.overload(),
		LayeredRuntime:  b.features(),
		StatsConfig:     stats(),
	}
	if b.err != nil {
		return nil, fmt.Errorf("write the bootstrap: %w", b.err)
	}
	return bootstrap, nil
}

// builder carries the configuration through the parts, and the first error.
type builder struct {
	Config
	err error
}

// any packs an extension's configuration.
func (b *builder) any(m proto.Message) *anypb.Any {
	packed, err := anypb.New(m)
	if err != nil && b.err == nil {
		b.err = err
	}
	return packed
}

func pipe(path string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path, Mode: 0o600}}}
}

func socket(address string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
