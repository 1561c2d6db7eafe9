package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tools/traffic"
)

// Envoy returns an Envoy with a bootstrap, to be started.
func Envoy(bootstrap string, arguments ...string) *exec.Cmd {
	return exec.Command(os.Getenv("ENVOY"), append([]string{"-c", bootstrap, "--disable-hot-restart"}, arguments...)...) //nolint:gosec // found by Isolate
}

// Object is a piece of Envoy's configuration.
type Object map[string]any

const types = "type.googleapis.com/envoy.extensions."

// Way is a listener of an Envoy without the operator's filters: it passes requests through.
type Way struct {
	Name   string
	Listen netip.AddrPort
	Routes []Object
	// Manager and Router override Envoy's defaults.
	Manager, Router Object
}

// Plain returns a route of all requests to a cluster; more overrides the defaults.
func Plain(cluster string, more Object) Object {
	return Object{"match": Object{"prefix": "/"}, "route": with(Object{"cluster": cluster}, more)}
}

// Cluster returns a cluster of one address; more overrides the defaults.
func Cluster(name string, to netip.AddrPort, more Object) Object {
	return with(Object{
		"name": name, "type": "STATIC",
		"load_assignment": Object{"cluster_name": name, "endpoints": []Object{{
			"lb_endpoints": []Object{{"endpoint": Object{"address": address(to)}}},
		}}},
	}, more)
}

// SameVersion makes a cluster use the version of HTTP that the client uses.
func SameVersion() Object {
	return Object{"typed_extension_protocol_options": Object{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": Object{
		"@type":                          types + "upstreams.http.v3.HttpProtocolOptions",
		"use_downstream_protocol_config": Object{"http_protocol_options": Object{}, "http2_protocol_options": Object{}},
	}}}
}

// Bootstrap writes the bootstrap of an Envoy into a folder, where its socket for
// administrators is, and returns its path.
func Bootstrap(dir string, ways []Way, clusters []Object) (path string, err error) {
	var listeners []Object
	for _, w := range ways {
		listeners = append(listeners, w.listener())
	}
	text, err := json.Marshal(Object{
		"admin":            Object{"address": Object{"pipe": Object{"path": devmesh.Config{RunPath: dir}.AdminSocket()}}},
		"static_resources": Object{"listeners": listeners, "clusters": clusters},
	})
	if err != nil {
		return "", fmt.Errorf("write the bootstrap of an Envoy: %w", err)
	}
	path = filepath.Join(dir, "stock.json")
	return path, os.WriteFile(path, text, 0o600)
}

func (w Way) listener() Object {
	manager := with(Object{
		"@type":       types + "filters.network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix": w.Name,
		"route_config": Object{"virtual_hosts": []Object{{
			"name": "all", "domains": []string{"*"}, "routes": w.Routes,
		}}},
		"http_filters": []Object{{"name": "router", "typed_config": with(Object{"@type": types + "filters.http.router.v3.Router"}, w.Router)}},
	}, w.Manager)
	return Object{
		"name": w.Name, "address": address(w.Listen),
		"filter_chains": []Object{{"filters": []Object{{"name": "http", "typed_config": manager}}}},
	}
}

func with(o, more Object) Object {
	maps.Copy(o, more)
	return o
}

func address(a netip.AddrPort) Object {
	return Object{"socket_address": Object{"address": a.Addr().String(), "port_value": a.Port()}}
}

// Admin requests a path of an Envoy's admin interface, through its socket in dir, and returns the
// body.
func Admin(ctx context.Context, dir, path string) ([]byte, error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", devmesh.Config{RunPath: dir}.AdminSocket())
		},
	}}
	return traffic.Fetch(ctx, client, "http://envoy"+path)
}
