package meshes

import (
	"net"
	"strconv"

	"switchyard.dev/tests/sidecar"
)

type object = sidecar.Object

// bootstrap returns that of an Envoy which has all of its configuration from istiod.
func (p Proxy) bootstrap() object {
	id := p.Name + "." + p.Namespace
	return object{
		"node": object{"id": string(p.Kind) + "~" + p.IP.String() + "~" + id + "~" + p.Namespace + ".svc.cluster.local", "cluster": id,
			"metadata": object{
				"ISTIO_VERSION": "1.31.0", "CLUSTER_ID": "Kubernetes", "NAMESPACE": p.Namespace, "NAME": p.Name,
				"SERVICE_ACCOUNT": "default", "INTERCEPTION_MODE": "NONE", "INSTANCE_IPS": p.IP.String(), "LABELS": p.Labels,
			}},
		"admin": object{"address": at(net.JoinHostPort(p.IP.String(), strconv.Itoa(adminPort)))},
		// As in Istio's own bootstrap: without it Envoy rejects long regular expressions.
		"layered_runtime": object{"layers": []object{{"name": "static", "static_layer": object{"re2.max_program_size.error_level": 32768}}}},
		"dynamic_resources": object{"lds_config": ads, "cds_config": ads, "ads_config": object{
			"api_type": "DELTA_GRPC", "transport_api_version": "V3", "set_node_on_first_message_only": true,
			"grpc_services": []object{{"envoy_grpc": object{"cluster_name": "istiod"}}},
		}},
		"static_resources": object{"clusters": []object{istiod}},
	}
}

var ads = object{"ads": object{}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"}

var istiod = object{
	"name": "istiod", "type": "STATIC", "connect_timeout": "1s",
	"typed_extension_protocol_options": object{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": object{
		"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
		"explicit_http_config": object{"http2_protocol_options": object{}},
	}},
	"load_assignment": object{"cluster_name": "istiod", "endpoints": []object{{
		"lb_endpoints": []object{{"endpoint": object{"address": at(xdsAddress)}}},
	}}},
}

// at returns a socket's address; address is one of this file's own, host:port.
func at(address string) object {
	host, port, _ := net.SplitHostPort(address)
	number, _ := strconv.Atoi(port)
	return object{"socket_address": object{"address": host, "port_value": number}}
}
