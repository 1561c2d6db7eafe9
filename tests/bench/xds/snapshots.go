package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/delta/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/status"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
)

// snapshots serves the same routes with the snapshot cache and the delta server of
// go-control-plane, as its documentation recommends: a node for each pod, and a snapshot that is
// set again whenever its content changes. The pods of a workload share one, so it is translated and
// hashed once.
type snapshots struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	cache   cache.SnapshotCache
	delta   delta.Server
	view    *view.View
	receipt *receipt

	mu sync.Mutex
	// served is the table that is served, and versions those that follow from it.
	served   table.Table
	versions map[string]string
	// places has the place in the log of every version that there was.
	places  map[string]uint64
	streams map[int64]*snapshotStream
}

// snapshotStream is the state of one stream.
type snapshotStream struct {
	pod     int
	nonce   string
	version string
}

func newSnapshots(v *view.View, r *receipt) (*snapshots, error) {
	s := &snapshots{
		cache: cache.NewSnapshotCache(true, cache.IDHash{}, nil), view: v, receipt: r,
		versions: map[string]string{}, places: map[string]uint64{}, streams: map[int64]*snapshotStream{},
	}
	s.delta = delta.NewServer(context.Background(), s.cache, s)
	t, changed := v.Current()
	if err := s.set(t); err != nil {
		return nil, err
	}
	go func() { lasts(s.follow(changed)) }()
	return s, nil
}

func (s *snapshots) serve(l net.Listener) error {
	// The limits are those of the operator's server; the encoding of messages is the default one of
	// protobuf.
	g := grpc.NewServer(append(serve.ServerOptions(), grpc.ForceServerCodecV2(encoding.GetCodecV2(proto.Name)))...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
	return g.Serve(l)
}

// DeltaAggregatedResources implements discoveryv3.AggregatedDiscoveryServiceServer.
func (s *snapshots) DeltaAggregatedResources(rpc discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.delta.DeltaStreamHandler(rpc, resource.AnyType)
}

// follow sets the snapshots of what changed, for good.
func (s *snapshots) follow(changed <-chan struct{}) error {
	for {
		<-changed
		var t table.Table
		t, changed = s.view.Current()
		if err := s.set(t); err != nil {
			return err
		}
	}
}

func (s *snapshots) set(t table.Table) error {
	s.mu.Lock()
	was := s.served
	s.mu.Unlock()
	for i := range s.receipt.load.Workloads {
		w := s.receipt.load.shop().Workload(i)
		if was.Whole() && was.HashOf(w) == t.HashOf(w) {
			continue
		}
		snap, err := s.snapshotOf(t, w)
		if err != nil {
			return err
		}
		for pod := i; pod < s.receipt.load.Streams; pod += s.receipt.load.Workloads {
			if err := s.cache.SetSnapshot(context.Background(), identity(pod, s.receipt.load), snap); err != nil {
				return err
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = t
	return nil
}

func (s *snapshots) snapshotOf(t table.Table, w table.Workload) (*cache.Snapshot, error) {
	routes, err := wholeRoutes(t, w)
	if err != nil {
		return nil, err
	}
	snap, err := cache.NewSnapshot(t.HashOf(w).String(), map[resource.Type][]types.Resource{resource.RouteType: {routes}})
	if err != nil {
		return nil, err
	}
	if err := snap.ConstructVersionMap(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	version := snap.GetVersionMap(resource.RouteType)[routes.Name]
	s.versions[routes.Name], s.places[version] = version, t.Pos().Seq
	return snap, nil
}

// wholeRoutes returns a workload's routes as one resource.
func wholeRoutes(t table.Table, w table.Workload) (*routev3.RouteConfiguration, error) {
	resources, err := translate.Resources(t, w)
	if err != nil {
		return nil, err
	}
	for _, r := range resources {
		if r.Type == translate.RouteType {
			routes := &routev3.RouteConfiguration{}
			return routes, r.Any.UnmarshalTo(routes)
		}
	}
	return nil, fmt.Errorf("%s has no routes", w.Name)
}

func (s *snapshots) due(ctx context.Context, t table.Table) (map[string]string, error) {
	for ctx.Err() == nil {
		s.mu.Lock()
		served, versions := s.served, maps.Clone(s.versions)
		s.mu.Unlock()
		if served.Hash() == t.Hash() {
			return versions, nil
		}
		time.Sleep(time.Millisecond)
	}
	return nil, ctx.Err()
}

// OnDeltaStreamOpen implements delta.Callbacks.
func (s *snapshots) OnDeltaStreamOpen(_ context.Context, id int64, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[id] = &snapshotStream{pod: -1}
	return nil
}

// OnDeltaStreamClosed implements delta.Callbacks.
func (s *snapshots) OnDeltaStreamClosed(id int64, _ *corev3.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, id)
}

// OnStreamDeltaRequest implements delta.Callbacks: here acknowledgements come in.
func (s *snapshots) OnStreamDeltaRequest(id int64, r *discoveryv3.DeltaDiscoveryRequest) error {
	s.mu.Lock()
	one := s.streams[id]
	if one.pod < 0 {
		var err error
		if one.pod, _, err = identified(r.GetNode().GetId()); err != nil {
			s.mu.Unlock()
			return status.Error(codes.InvalidArgument, err.Error())
		}
	}
	accepted := r.GetResponseNonce() != "" && r.GetResponseNonce() == one.nonce && r.GetErrorDetail() == nil
	place := s.places[one.version]
	s.mu.Unlock()
	if accepted {
		s.receipt.acknowledged(one.pod, place)
	}
	return nil
}

// OnStreamDeltaResponse implements delta.Callbacks.
func (s *snapshots) OnStreamDeltaResponse(id int64, _ *discoveryv3.DeltaDiscoveryRequest, r *discoveryv3.DeltaDiscoveryResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.streams[id]
	one.nonce = r.GetNonce()
	for _, resource := range r.GetResources() {
		one.version = resource.GetVersion()
	}
}
