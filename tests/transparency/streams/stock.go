package streams

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"switchyard.dev/sidecars/devmesh"
)

// object is a piece of Envoy's configuration.
type object map[string]any

const extensions = "type.googleapis.com/envoy.extensions."

// stock writes the bootstrap of an Envoy that stands where the sidecar stands, does
// nothing but pass requests on in the version of HTTP that they came in, and has
// Envoy's own windows and buffers. It gives the file's path.
func stock(dir string) (string, error) {
	manager := object{
		"@type":       extensions + "filters.network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix": "inbound", "generate_request_id": false,
		"route_config": object{"virtual_hosts": []object{{
			"name": "all", "domains": []string{"*"},
			"routes": []object{{"match": object{"prefix": "/"}, "route": object{"cluster": "app", "timeout": "0s"}}},
		}}},
		"http_filters": []object{{"name": "router", "typed_config": object{"@type": extensions + "filters.http.router.v3.Router"}}},
	}
	same := object{
		"@type": extensions + "upstreams.http.v3.HttpProtocolOptions",
		"use_downstream_protocol_config": object{
			"http_protocol_options": object{}, "http2_protocol_options": object{},
		},
	}
	text, err := json.Marshal(object{
		"static_resources": object{
			"listeners": []object{{
				"name": "inbound", "address": address("0.0.0.0", devmesh.ListenerPort),
				"filter_chains": []object{{"filters": []object{{"name": "http", "typed_config": manager}}}},
			}},
			"clusters": []object{{
				"name": "app", "type": "STATIC",
				"typed_extension_protocol_options": object{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": same},
				"load_assignment": object{"cluster_name": "app", "endpoints": []object{{
					"lb_endpoints": []object{{"endpoint": object{"address": address("127.0.0.1", appPort)}}},
				}}},
			}},
		},
	})
	if err != nil {
		return "", fmt.Errorf("write the bootstrap of a stock Envoy: %w", err)
	}
	file := filepath.Join(dir, "stock.json")
	return file, os.WriteFile(file, text, 0o600)
}

func address(host string, port int) object {
	return object{"socket_address": object{"address": host, "port_value": port}}
}
