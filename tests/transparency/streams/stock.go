package streams

import (
	"net/netip"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/sidecar"
)

// stock writes the bootstrap of an Envoy that stands where the sidecar stands, does
// nothing but pass requests on in the version of HTTP that they came in, and has
// Envoy's own windows and buffers. It returns the file's path.
func stock(dir string) (string, error) {
	inbound := sidecar.Way{
		Name: "inbound", Listen: netip.AddrPortFrom(netip.IPv4Unspecified(), devmesh.ListenerPort),
		Routes:  []sidecar.Object{sidecar.Plain("app", sidecar.Object{"timeout": "0s"})},
		Manager: sidecar.Object{"generate_request_id": false},
	}
	app := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), appPort)
	return sidecar.Bootstrap(dir, []sidecar.Way{inbound}, []sidecar.Object{sidecar.Cluster("app", app, sidecar.SameVersion())})
}
