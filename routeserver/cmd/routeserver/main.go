// Command routeserver follows the routing log and serves the routing table: the
// published routes API over gRPC and REST, xDS for DevMesh sidecars, and metrics.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/routeserver/server"
	"switchyard.dev/xds/routingkey"
)

func main() {
	err := run(os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		slog.Error("the route server ended", "error", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	settings, err := server.ParseSettings(args, os.Getenv, os.Stderr)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: settings.LogLevel}))
	slog.SetDefault(logger)
	config, hangUp, err := settings.Open(logger)
	if err != nil {
		return err
	}
	defer hangUp()
	config.Keys = routingkey.Find
	if err := serveCluster(&config, settings, logger); err != nil {
		return err
	}
	main, err := server.New(config)
	if err != nil {
		return err
	}
	return main.Run(ctx)
}
