package main

import (
	"fmt"
	"net/netip"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/sidecar"
)

// bare is an Envoy with no code of this project, which replaces the sidecar.
type bare struct {
	// app and fork are the addresses of the two sides.
	app, fork netip.AddrPort
	// away: its one plain route has the fork as its destination instead of the application.
	away bool
	// keys get a route with a regular expression each, before the plain one.
	keys []string
}

// write writes the bootstrap into a directory and returns its path. The headers that Envoy adds to
// each request by default are off, as in the sidecar: generating a request's id costs more than
// routing it. All else is Envoy's default, including timeouts.
func (b bare) write(dir string) (string, error) {
	inbound := sidecar.Way{
		Name: "inbound", Listen: netip.AddrPortFrom(netip.IPv4Unspecified(), devmesh.ListenerPort), Routes: b.routes(),
		Manager: sidecar.Object{"generate_request_id": false}, Router: sidecar.Object{"suppress_envoy_headers": true},
	}
	return sidecar.Bootstrap(dir, []sidecar.Way{inbound},
		[]sidecar.Object{sidecar.Cluster("app", b.app, nil), sidecar.Cluster("fork", b.fork, nil)})
}

func (b bare) routes() []sidecar.Object {
	var all []sidecar.Object
	for _, key := range b.keys {
		all = append(all, sidecar.Object{
			"match": sidecar.Object{"prefix": "/", "headers": []sidecar.Object{{
				"name": "baggage", "string_match": sidecar.Object{"safe_regex": sidecar.Object{
					"regex": fmt.Sprintf(`^(?:.*,)?[ \t]*sd-routing-key[ \t]*=[ \t]*%s[ \t]*(?:[;,].*)?$`, key),
				}},
			}}},
			"route": sidecar.Object{"cluster": "fork"},
		})
	}
	plain := "app"
	if b.away {
		plain = "fork"
	}
	return append(all, sidecar.Plain(plain, nil))
}
