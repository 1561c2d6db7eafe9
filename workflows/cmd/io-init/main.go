// Command io-init is the container signadot-execunit-input-manager of a unit's pod: it gets what
// the script needs, and ends.
package main

import (
	"context"

	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/iocontext/unit"
)

// wrapper is where the image has the wrapper of scripts.
const wrapper = "/io-run"

func main() {
	unit.Container("io-init", func(ctx context.Context, s unit.Server) *iocontext.Ending {
		return unit.Receive(ctx, s, unit.Volume{}, wrapper)
	})
}
