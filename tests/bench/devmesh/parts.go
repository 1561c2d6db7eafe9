package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/xds/translate"
)

// The sidecar's Envoy again and again, each time without one of its parts: what
// each costs is what its absence saves. Its routes are written into the bootstrap
// here, so nobody needs to keep it.

// taken is the sidecar's bootstrap, opened where parts are taken out.
type taken struct {
	bootstrap *bootstrapv3.Bootstrap
	http      *hcmv3.HttpConnectionManager
	listener  *listenerv3.Listener
	app       *clusterv3.Cluster
	// fixed is a cluster of the application's address.
	fixed *endpointv3.ClusterLoadAssignment
}

// part is what can be absent.
type part struct {
	name string
	take func(*taken)
}

func parts() []part {
	without := func(filters ...string) func(*taken) {
		return func(t *taken) {
			t.http.HttpFilters = slices.DeleteFunc(t.http.HttpFilters, func(f *hcmv3.HttpFilter) bool {
				return slices.Contains(filters, f.Name)
			})
		}
	}
	const metadata, state, explain = "envoy.filters.http.header_to_metadata", "envoy.filters.http.set_filter_state", "signadot.com/explain"
	return []part{
		{"all of it", func(*taken) {}},
		{"no key taken", without(metadata)},
		{"no value to match", without(state)},
		{"no explanations", without(explain)},
		{"none of these three", without(metadata, state, explain)},
		{"no failure texts", func(t *taken) { t.http.LocalReplyConfig = nil }},
		{"no overload manager", func(t *taken) { t.bootstrap.OverloadManager = nil }},
		{"no HTTP limits", func(t *taken) {
			t.http.CommonHttpProtocolOptions, t.http.HttpProtocolOptions, t.http.Http2ProtocolOptions = nil, nil, nil
		}},
		{"no headers timeout", func(t *taken) { t.http.RequestHeadersTimeout = nil }},
		{"no upgrades", func(t *taken) { t.http.UpgradeConfigs = nil }},
		{"no buffer limits", func(t *taken) {
			t.listener.PerConnectionBufferLimitBytes, t.app.PerConnectionBufferLimitBytes = nil, nil
		}},
		{"one protocol upstream", func(t *taken) { t.app.TypedExtensionProtocolOptions = nil }},
		{"one static cluster", func(t *taken) {
			t.app.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
			t.app.LbPolicy, t.app.LoadAssignment = clusterv3.Cluster_ROUND_ROBIN, t.fixed
		}},
		{"one plain route", func(t *taken) {
			h := t.http.GetRouteConfig().VirtualHosts[0]
			h.Matcher = nil
			h.Routes = []*routev3.Route{{
				Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: translate.AppCluster}}},
			}}
		}},
	}
}

// without starts the sidecar's Envoy without a part.
func without(p part) func(*node, *place) (*process, error) {
	return func(n *node, at *place) (*process, error) {
		t, err := open(at)
		if err != nil {
			return nil, err
		}
		p.take(t)
		file, err := t.write(at.dir)
		if err != nil {
			return nil, err
		}
		return start(at.pod, n.measured, nil, nil, beEnvoy, file)
	}
}

// open gives the bootstrap of a sidecar with the routes of its workload in it.
func open(at *place) (*taken, error) {
	w := workload(at.sandboxes)
	b, err := devmesh.Bootstrap(devmesh.Config{Workload: w, RunPath: at.dir})
	if err != nil {
		return nil, err
	}
	b.DynamicResources = nil
	t := &taken{bootstrap: b, listener: b.StaticResources.Listeners[0], http: &hcmv3.HttpConnectionManager{}}
	if err := t.manager().UnmarshalTo(t.http); err != nil {
		return nil, err
	}
	resources, err := translate.Resources(tableOf(sizes...), w)
	if err != nil {
		return nil, err
	}
	routes := &routev3.RouteConfiguration{}
	if err := resources[0].Any.UnmarshalTo(routes); err != nil {
		return nil, err
	}
	t.http.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: routes}
	for _, c := range b.StaticResources.Clusters {
		if c.Name == translate.AppCluster {
			t.app = c
		}
	}
	if t.app == nil {
		return nil, errors.New("the bootstrap has no cluster of the application")
	}
	t.fixed = &endpointv3.ClusterLoadAssignment{
		ClusterName: translate.AppCluster,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{
				Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
					Address:       at.address().Addr().String(),
					PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: appPort},
				}},
			}}},
		}}}},
	}
	return t, nil
}

// manager is where the HTTP connection manager is written.
func (t *taken) manager() *anypb.Any { return t.listener.FilterChains[0].Filters[0].GetTypedConfig() }

func (t *taken) write(dir string) (string, error) {
	packed, err := anypb.New(t.http)
	if err != nil {
		return "", err
	}
	proto.Reset(t.manager())
	proto.Merge(t.manager(), packed)
	// The listener of connections that speak late has a manager of its own, and
	// waits for routes that nobody brings.
	t.bootstrap.StaticResources.Listeners = t.bootstrap.StaticResources.Listeners[:1]
	text, err := protojson.Marshal(t.bootstrap)
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "parts.json")
	return name, os.WriteFile(name, text, 0o600)
}
