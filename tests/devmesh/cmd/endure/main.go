// Command endure shows that DevMesh disappears: routes change under load, the
// control plane goes away and comes back, sidecars are restarted, and nobody's
// request fails or is led astray; and what real Envoys do is what the routing
// table says. See package tests/devmesh.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/tests/devmesh"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "endure:", err)
		os.Exit(1)
	}
}

func run() error {
	settings, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	if err := devmesh.Isolate(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return settings.run(ctx)
}
