// Command io-init is the container signadot-execunit-input-manager of a unit's pod: it gets what
// the script needs, and ends.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/iocontext/unit"
)

// wrapper is where the image has the wrapper of scripts.
const wrapper = "/io-run"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	ending := run(ctx)
	if ending == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "io-init: %s: %s\n", ending.Reason, ending.Message)
	if err := unit.Ended(unit.TerminationPath, *ending); err != nil {
		fmt.Fprintln(os.Stderr, "io-init:", err)
	}
	os.Exit(1)
}

func run(ctx context.Context) *iocontext.Ending {
	s, err := unit.FromEnv(os.Getenv)
	if err != nil {
		return &iocontext.Ending{Reason: iocontext.ServerUnreachable, Message: err.Error()}
	}
	return unit.Receive(ctx, s, unit.Volume{}, wrapper)
}
