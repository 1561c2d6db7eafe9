package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"switchyard.dev/sidecars/devmesh"
)

// object is a piece of Envoy's configuration.
type object map[string]any

const types = "type.googleapis.com/envoy."

// bare is an Envoy without anything of ours. It stands where the sidecar stands.
type bare struct {
	// app and fork are the addresses of the two sides.
	app, fork netip.AddrPort
	// away: its one plain route leads to the fork and not to the application.
	away bool
	// keys get a route with a regular expression each, before the plain one.
	keys []string
}

// write writes the bootstrap into a folder and gives its path.
func (b bare) write(dir string) (string, error) {
	name := filepath.Join(dir, "bare.json")
	text, err := json.Marshal(object{
		"admin": object{"address": object{"pipe": object{"path": filepath.Join(dir, "admin.sock")}}},
		"static_resources": object{
			"listeners": []object{{
				"name":          "inbound",
				"address":       address(netip.AddrPortFrom(netip.IPv4Unspecified(), devmesh.ListenerPort)),
				"filter_chains": []object{{"filters": []object{{"name": "http", "typed_config": b.http()}}}},
			}},
			"clusters": []object{cluster("app", b.app), cluster("fork", b.fork)},
		},
	})
	if err != nil {
		return "", err
	}
	return name, os.WriteFile(name, text, 0o600)
}

// http is what passes a request on and does nothing else. The headers that Envoy
// adds to each request by default are off, as in the sidecar: making up a request's
// id costs more than routing it. All else is Envoy's default, its deadlines too.
func (b bare) http() object {
	return object{
		"@type":               types + "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix":         "inbound",
		"generate_request_id": false,
		"route_config": object{"name": "routes", "virtual_hosts": []object{{
			"name": "requests", "domains": []string{"*"}, "routes": b.routes(),
		}}},
		"http_filters": []object{{"name": "router", "typed_config": object{
			"@type": types + "extensions.filters.http.router.v3.Router", "suppress_envoy_headers": true,
		}}},
	}
}

func (b bare) routes() []object {
	var all []object
	for _, key := range b.keys {
		all = append(all, object{
			"match": object{"prefix": "/", "headers": []object{{
				"name": "baggage", "string_match": object{"safe_regex": object{
					"regex": fmt.Sprintf(`^(?:.*,)?[ \t]*sd-routing-key[ \t]*=[ \t]*%s[ \t]*(?:[;,].*)?$`, key),
				}},
			}}},
			"route": object{"cluster": "fork"},
		})
	}
	plain := "app"
	if b.away {
		plain = "fork"
	}
	return append(all, object{"match": object{"prefix": "/"}, "route": object{"cluster": plain}})
}

func cluster(name string, to netip.AddrPort) object {
	return object{
		"name": name, "type": "STATIC", "connect_timeout": "5s",
		"load_assignment": object{"cluster_name": name, "endpoints": []object{{
			"lb_endpoints": []object{{"endpoint": object{"address": address(to)}}},
		}}},
	}
}

func address(a netip.AddrPort) object {
	return object{"socket_address": object{"address": a.Addr().String(), "port_value": a.Port()}}
}
