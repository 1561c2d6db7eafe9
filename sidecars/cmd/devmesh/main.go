// Command devmesh is the sidecar: it keeps an Envoy beside a baseline workload
// and hands it the routes of its sandboxes. It is configured by the environment
// that sidecars/devmesh describes, and ends when it is told to, after draining.
//
//	devmesh               be the sidecar
//	devmesh drain         tell the sidecar in this container that its pod ends
//	devmesh drain -wait   and wait until nothing is under way any more
//
// The pod's preStop hook does the latter two.
package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/sidecars/devmesh/keeper"
)

func main() {
	config, err := keeper.FromEnvironment(os.Getenv)
	logger := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: config.Level}))
	if err != nil {
		logger.Error("the sidecar cannot start", "error", err)
		os.Exit(1)
	}
	config.Logger = logger
	if err := run(config, os.Args[1:]); err != nil {
		logger.Error("the sidecar ended", "error", err)
		os.Exit(1)
	}
}

func run(config keeper.Config, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config.Proxy.ListenIPv6 = hasIPv6()
	return keeper.Command(ctx, config, args)
}

// hasIPv6 tells whether the pod's kernel lets anybody listen on IPv6.
func hasIPv6() bool {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}
