// Command devmesh is the sidecar: it keeps an Envoy beside a baseline workload
// and hands it the routes of its sandboxes. It is configured by the environment
// that sidecars/devmesh describes, and ends when it is told to, after draining.
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
	config.Proxy.ListenIPv6 = hasIPv6()
	if err := run(config); err != nil {
		logger.Error("the sidecar ended", "error", err)
		os.Exit(1)
	}
}

func run(config keeper.Config) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return keeper.Run(ctx, config)
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
