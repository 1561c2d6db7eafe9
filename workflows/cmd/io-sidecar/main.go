// Command io-sidecar is the container signadot-execunit-output-manager of a unit's pod: it waits
// for the script to end, sends its outputs to the server, and ends.
package main

import (
	"context"

	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/iocontext/unit"
)

func main() {
	unit.Container("io-sidecar", func(ctx context.Context, s unit.Server) *iocontext.Ending {
		return unit.Deliver(ctx, s, unit.Volume{})
	})
}
