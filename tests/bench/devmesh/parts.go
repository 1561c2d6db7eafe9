package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/program"
	"switchyard.dev/xds/translate"
)

// The sidecar's Envoy again and again, each time without one of its parts, beside the one that
// has them all: the cost of a part is what its absence saves. Its routes are written into the
// bootstrap here, so no keeper is needed.

// taken is the sidecar's bootstrap, opened where parts are taken out.
type taken struct {
	bootstrap *bootstrapv3.Bootstrap
	http      *hcmv3.HttpConnectionManager
	listener  *listenerv3.Listener
	// app and forks are the clusters that routes have as destinations.
	app, forks *clusterv3.Cluster
}

// part is what can be absent.
type part struct {
	name string
	// take takes it out; nil leaves everything as it is.
	take func(*taken)
	// blind: without it no request reaches a fork.
	blind bool
}

// shape is a place with the sidecar's Envoy without the part.
func (p part) shape() shape {
	s := shape{name: p.name, sandboxes: 10, kinds: []kind{plain, other, known}, begin: p.begin, part: p.take != nil}
	if p.blind {
		s.sandboxes, s.kinds = 0, s.kinds[:2]
	}
	return s
}

// parts are what can be taken out one by one.
func parts() []part {
	without := func(filters ...string) func(*taken) {
		return func(t *taken) {
			t.http.HttpFilters = slices.DeleteFunc(t.http.HttpFilters, func(f *hcmv3.HttpFilter) bool {
				return slices.Contains(filters, f.Name)
			})
		}
	}
	const metadata, state = translate.KeyFilter, translate.MatchFilter
	return []part{
		{name: "all of it"},
		{name: "all filters on but the one that refuses", take: func(t *taken) {
			for _, f := range t.http.HttpFilters {
				f.Disabled = f.Name == translate.RefuseFilter
			}
		}},
		{name: "x-forwarded-proto as Envoy sets it", take: sayProto},
		{name: "no failure texts", take: func(t *taken) { t.http.LocalReplyConfig = nil }},
		{name: "no overload manager", take: func(t *taken) { t.bootstrap.OverloadManager = nil }},
		{name: "no headers timeout", take: func(t *taken) { t.http.RequestHeadersTimeout = nil }},
		{name: "no HTTP limits", take: func(t *taken) {
			t.http.CommonHttpProtocolOptions, t.http.HttpProtocolOptions, t.http.Http2ProtocolOptions = nil, nil, nil
		}},
		{name: "no second try", take: func(t *taken) { t.forks.TypedExtensionProtocolOptions = t.app.TypedExtensionProtocolOptions }},
		{name: "no statistics", take: func(t *taken) {
			t.bootstrap.StatsConfig = &metricsv3.StatsConfig{StatsMatcher: &metricsv3.StatsMatcher{
				StatsMatcher: &metricsv3.StatsMatcher_RejectAll{RejectAll: true},
			}}
		}},
		{name: "no key taken", take: without(metadata), blind: true},
		{name: "no value to match", take: without(state), blind: true},
		{name: "none of the filters", take: without(metadata, state), blind: true},
	}
}

// sayProto leaves the header with the scheme of the client's connection to Envoy.
func sayProto(t *taken) {
	t.http.EarlyHeaderMutationExtensions = nil
	routes := t.http.GetRouteConfig()
	routes.RequestHeadersToAdd, routes.RequestHeadersToRemove = nil, nil
	routes.VirtualHosts[0].RequestHeadersToRemove = nil
}

// begin starts the sidecar's Envoy without the part.
func (p part) begin(n *node, at *place) (*program.Program, error) {
	t, err := open(at)
	if err != nil {
		return nil, err
	}
	if p.take != nil {
		p.take(t)
	}
	file, err := t.write(at.dir)
	if err != nil {
		return nil, err
	}
	return start(at.pod, n.measured, "Envoy", envoyWith(file))
}

// open returns the bootstrap of a sidecar with the routes of its workload in it.
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
		switch c.Name {
		case translate.AppCluster:
			t.app = c
		case translate.ForksCluster:
			t.forks = c
		}
	}
	if t.app == nil || t.forks == nil {
		return nil, errors.New("the bootstrap lacks clusters that routes name")
	}
	return t, nil
}

// manager is where the HTTP connection manager is written.
func (t *taken) manager() *anypb.Any { return t.listener.FilterChains[0].Filters[0].GetTypedConfig() }

// write writes the bootstrap into a directory and returns its path.
func (t *taken) write(dir string) (string, error) {
	packed, err := anypb.New(t.http)
	if err != nil {
		return "", err
	}
	proto.Reset(t.manager())
	proto.Merge(t.manager(), packed)
	// The listener for server-first protocols, in which clients send late, has a separate connection
	// manager, and waits for routes that do not arrive here.
	t.bootstrap.StaticResources.Listeners = t.bootstrap.StaticResources.Listeners[:1]
	text, err := protojson.Marshal(t.bootstrap)
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "parts.json")
	return name, os.WriteFile(name, text, 0o600)
}
