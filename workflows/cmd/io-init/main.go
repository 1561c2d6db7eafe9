// Command io-init is the container signadot-execunit-input-manager of a unit's pod: it fetches
// the script and its inputs, and ends.
package main

import (
	"context"

	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/iocontext/unit"
)

// wrapper is the path of the wrapper in the image.
const wrapper = "/io-run"

func main() {
	unit.Container("io-init", func(ctx context.Context, s unit.Server) *iocontext.Ending {
		return unit.Receive(ctx, s, unit.Volume{}, wrapper)
	})
}
