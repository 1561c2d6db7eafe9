// Command devmesh is the sidecar: it runs an Envoy next to a baseline workload and passes it
// the routes of its sandboxes. It is configured by the environment that sidecars/devmesh
// documents. On SIGTERM it drains and ends.
//
//	devmesh         be the sidecar
//	devmesh drain   notify the sidecar in this container that its pod ends, as its preStop hook does
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/sidecars/devmesh/keeper"
)

func main() { program.Main("the sidecar ended", run) }

func run(ctx context.Context, args []string) error {
	config, err := keeper.FromEnvironment(os.Getenv)
	config.Logger = program.Logger(config.Level)
	if err != nil {
		return fmt.Errorf("the sidecar cannot start: %w", err)
	}
	config.Proxy.ListenIPv6 = hasIPv6()
	return keeper.Command(ctx, config, args)
}

// hasIPv6 reports whether the pod's kernel supports listening on IPv6.
func hasIPv6() bool {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}
