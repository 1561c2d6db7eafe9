package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"switchyard.dev/tests/program"
)

// object is a piece of Envoy's configuration.
type object map[string]any

const types = "type.googleapis.com/envoy.extensions."

// stockPort is where the stock Envoy listens for the application.
func (a App) stockPort() uint16 { return a.Port + 10_000 }

// startStock starts an Envoy with nothing of ours, and with no setting but those
// without which it leads nowhere: a listener for each application, one plain route, the
// protocol that the client speaks, upgrades to websockets allowed.
func (r *Rig) startStock(ctx context.Context, all []App) error {
	var listeners, clusters []object
	for _, a := range all {
		listeners = append(listeners, stockListener(a))
		clusters = append(clusters, stockCluster(a))
	}
	text, err := json.Marshal(object{"static_resources": object{"listeners": listeners, "clusters": clusters}})
	if err != nil {
		return err
	}
	bootstrap := filepath.Join(r.dir, "stock.json")
	if err := os.WriteFile(bootstrap, text, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), os.Getenv("ENVOY"), "-c", bootstrap, "--disable-hot-restart", "--log-level", "warn") //nolint:gosec // found by Isolate
	p, err := program.Start(r.dir, "stock", cmd, r.stock.Do)
	if err != nil {
		return err
	}
	r.programs = append(r.programs, p)
	for _, a := range all {
		err := until(ctx, "the stock Envoy listens", func() error { return errors.Join(p.Running(), dials(r.stock.Do, a.stockPort())) })
		if err != nil {
			log, _ := os.ReadFile(filepath.Join(r.dir, "stock.log"))
			return fmt.Errorf("%w\n%s", err, log)
		}
	}
	return nil
}

func stockListener(a App) object {
	manager := object{
		"@type":           types + "filters.network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix":     a.Name,
		"upgrade_configs": []object{{"upgrade_type": "websocket"}},
		"route_config": object{"virtual_hosts": []object{{
			"name": "all", "domains": []string{"*"},
			"routes": []object{{"match": object{"prefix": "/"}, "route": object{"cluster": a.Name}}},
		}}},
		"http_filters": []object{{"name": "router", "typed_config": object{"@type": types + "filters.http.router.v3.Router"}}},
	}
	return object{
		"name": a.Name, "address": address("0.0.0.0", a.stockPort()),
		"filter_chains": []object{{"filters": []object{{"name": "http", "typed_config": manager}}}},
	}
}

func stockCluster(a App) object {
	return object{
		"name": a.Name, "type": "STATIC",
		"load_assignment": object{"cluster_name": a.Name, "endpoints": []object{{
			"lb_endpoints": []object{{"endpoint": object{"address": address("127.0.0.1", a.Port)}}},
		}}},
		"typed_extension_protocol_options": object{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": object{
			"@type":                          types + "upstreams.http.v3.HttpProtocolOptions",
			"use_downstream_protocol_config": object{"http_protocol_options": object{}, "http2_protocol_options": object{}},
		}},
	}
}

func address(ip string, port uint16) object {
	return object{"socket_address": object{"address": ip, "port_value": port}}
}
