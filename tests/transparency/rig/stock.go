package rig

import (
	"context"
	"errors"
	"net/netip"

	"switchyard.dev/tests/sidecar"
)

// stockPort is where the stock Envoy listens for the application.
func (a App) stockPort() uint16 { return a.Port + 10_000 }

// startStock starts an Envoy with nothing of this project, and with only the settings that it
// needs to forward: a listener for each application, one plain route, the protocol that the
// client speaks, upgrades to websockets allowed.
func (r *Rig) startStock(ctx context.Context, all []App) error {
	var ways []sidecar.Way
	var clusters []sidecar.Object
	for _, a := range all {
		ways = append(ways, sidecar.Way{
			Name: a.Name, Listen: netip.AddrPortFrom(netip.IPv4Unspecified(), a.stockPort()),
			Routes:  []sidecar.Object{sidecar.Plain(a.Name, nil)},
			Manager: sidecar.Object{"upgrade_configs": []sidecar.Object{{"upgrade_type": "websocket"}}},
		})
		application := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), a.Port)
		clusters = append(clusters, sidecar.Cluster(a.Name, application, sidecar.SameVersion()))
	}
	bootstrap, err := sidecar.Bootstrap(r.dir, ways, clusters)
	if err != nil {
		return err
	}
	return r.run(ctx, r.dir, "stock", sidecar.Envoy(bootstrap, "--log-level", "warn"), r.stock.Do, func() error {
		var closed error
		for _, a := range all {
			closed = errors.Join(closed, dials(r.stock.Do, a.stockPort()))
		}
		return closed
	})
}
