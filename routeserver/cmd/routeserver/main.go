// Command routeserver follows the routing log and serves the routing table: the
// published routes API over gRPC and REST, xDS for DevMesh sidecars, and metrics.
package main

import (
	"context"
	"os"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/xds/routingkey"
)

func main() { program.Main("the route server ended", run) }

func run(ctx context.Context, args []string) error {
	settings, err := server.ParseSettings(args, os.Getenv, os.Stderr)
	if err != nil {
		return err
	}
	logger := program.Logger(settings.LogLevel)
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
