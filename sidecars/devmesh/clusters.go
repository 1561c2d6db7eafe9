package devmesh

import (
	_ "embed" // the script

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	upstreamproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	rawbufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"switchyard.dev/xds/translate"
)

// protocolOptions is the key of a cluster's HTTP options.
const protocolOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// app is the original destination of the connection, before it was redirected: the application
// in this pod.
func (b *builder) app() *clusterv3.Cluster {
	c := b.originalDestination(translate.AppCluster)
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{protocolOptions: b.any(b.sameProtocol(toServers(idleToApp, 0)))}
	return c
}

// forks sends requests to the address in their filter state, which translate.DestinationFilter has
// set from the matched route; it is there for all tries. Without one Envoy takes the header, and
// without that it would send the request to the baseline: routes to this cluster that lack the
// address in the form that the filter reads have it in the header (package translate).
func (b *builder) forks() *clusterv3.Cluster {
	c := b.originalDestination(translate.ForksCluster)
	c.ConnectTimeout = durationpb.New(forkConnectTimeout)
	c.LbConfig = &clusterv3.Cluster_OriginalDstLbConfig_{OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{
		UseHttpHeader: true, HttpHeaderName: translate.DestinationHeader,
	}}
	options := b.sameProtocol(toServers(idleToApp, forkConnection))
	options.RetryPolicy = connectAgain()
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{protocolOptions: b.any(options)}
	return c
}

// connectAgain has a request sent again when no connection to its fork could be made. The fork
// has seen nothing of it then, so this holds for all methods. A request that was sent is never
// sent again.
func connectAgain() *routev3.RetryPolicy {
	return &routev3.RetryPolicy{RetryOn: "connect-failure", NumRetries: wrapperspb.UInt32(forkTries - 1)}
}

func (b *builder) originalDestination(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                          name,
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST},
		LbPolicy:                      clusterv3.Cluster_CLUSTER_PROVIDED,
		CleanupInterval:               durationpb.New(forgetDestination),
		ConnectTimeout:                durationpb.New(connectTimeout),
		PerConnectionBufferLimitBytes: buffer(connectionBuffer),
		UpstreamConnectionOptions:     &clusterv3.UpstreamConnectionOptions{TcpKeepalive: keepalive()},
		CircuitBreakers:               b.circuits(),
	}
}

// sameProtocol speaks upstream what the client spoke: HTTP/1.1 stays HTTP/1.1,
// and HTTP/2 (gRPC) stays HTTP/2.
func (b *builder) sameProtocol(common *corev3.HttpProtocolOptions) *httpv3.HttpProtocolOptions {
	return &httpv3.HttpProtocolOptions{
		CommonHttpProtocolOptions: common,
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
			UseDownstreamProtocolConfig: &httpv3.HttpProtocolOptions_UseDownstreamHttpConfig{
				HttpProtocolOptions: http1(), Http2ProtocolOptions: http2ToServers(),
			},
		},
	}
}

// xds is the program that runs this Envoy. It is on a socket that only the two of them can
// open, so there is no encryption or authentication; the program presents the pod's token to
// the route server.
func (b *builder) xds() *clusterv3.Cluster {
	options := http2()
	options.ConnectionKeepalive = &corev3.KeepaliveSettings{
		Interval: durationpb.New(keepaliveXDS), Timeout: durationpb.New(keepaliveXDSAnswer),
	}
	c := b.local(xdsCluster, b.XDSSocket())
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{protocolOptions: b.any(&httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: options},
			},
		},
	})}
	return c
}

// late is the program that runs this Envoy; it gets the original destination of the connection
// in a PROXY header.
func (b *builder) late() *clusterv3.Cluster {
	c := b.local(lateCluster, b.LateSocket())
	c.TransportSocket = &corev3.TransportSocket{
		Name: "envoy.transport_sockets.upstream_proxy_protocol",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: b.any(&upstreamproxyv3.ProxyProtocolUpstreamTransport{
			Config: &corev3.ProxyProtocolConfig{Version: corev3.ProxyProtocolConfig_V2},
			TransportSocket: &corev3.TransportSocket{
				Name:       "envoy.transport_sockets.raw_buffer",
				ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: b.any(&rawbufferv3.RawBuffer{})},
			},
		})},
	}
	return c
}

// local is a cluster behind a socket in the pod.
func (b *builder) local(name, path string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                          name,
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:                durationpb.New(connectTimeout),
		PerConnectionBufferLimitBytes: buffer(lateBuffer),
		CircuitBreakers:               b.circuits(),
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: name,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
					Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}},
				}},
			}}}},
		},
	}
}

// circuits replaces Envoy's own limit of 1,024 connections and requests, which
// the application alone would not have.
func (b *builder) circuits() *clusterv3.CircuitBreakers {
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections:     wrapperspb.UInt32(b.Connections),
		MaxPendingRequests: wrapperspb.UInt32(maxRequests),
		MaxRequests:        wrapperspb.UInt32(maxRequests),
		MaxRetries:         wrapperspb.UInt32(maxRequests),
	}}}
}

// edgeFilter takes routing keys out of baggage and tracestate. An edge has it in place of
// the filters that read keys, so that no request is routed by one whatever the script does.
// Custom headers are taken out by the routes, which know them (translate.Head.AtEdge).
const edgeFilter = "signadot.com/edge"

//go:embed edge.lua
var edgeScript string

// dropKeys is a script because nothing else of Envoy takes one entry out of a list and
// leaves the others: see tools/adr/0035.
func dropKeys() *luav3.Lua {
	return &luav3.Lua{DefaultSourceCode: &corev3.DataSource{
		Specifier: &corev3.DataSource_InlineString{InlineString: edgeScript},
	}}
}
