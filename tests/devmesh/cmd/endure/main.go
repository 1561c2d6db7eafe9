// Command endure shows that DevMesh disappears: routes change under load, the control plane goes
// away and comes back, sidecars are restarted, and no request fails or is misrouted; and the
// routes of real Envoys equal the routing table. See package tests/devmesh.
package main

import (
	"context"
	"os"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/devmesh/control"
	"switchyard.dev/tests/sidecar"
)

func main() {
	frame.Main("endure", run)
}

func run(ctx context.Context) error {
	settings, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	if err := control.Isolate(sidecar.Program); err != nil {
		return err
	}
	return settings.run(ctx)
}
