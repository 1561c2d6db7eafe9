// Command io-sidecar is the container signadot-execunit-output-manager of a unit's pod: it waits
// for the script to end, has its outputs kept, and ends.
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	ending := run(ctx)
	if ending == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "io-sidecar: %s: %s\n", ending.Reason, ending.Message)
	if err := unit.Ended(unit.TerminationPath, *ending); err != nil {
		fmt.Fprintln(os.Stderr, "io-sidecar:", err)
	}
	os.Exit(1)
}

func run(ctx context.Context) *iocontext.Ending {
	s, err := unit.FromEnv(os.Getenv)
	if err != nil {
		return &iocontext.Ending{Reason: iocontext.ServerUnreachable, Message: err.Error()}
	}
	return unit.Deliver(ctx, s, unit.Volume{})
}
