package devmesh

import (
	"fmt"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

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
