// Command tunnel-api answers questions of workstations about the cluster, and issues certificates
// and credentials that are valid for minutes.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/tunnels/api"
)

func main() { program.Main("tunnel-api ended", run) }

func run(ctx context.Context, args []string) error {
	settings, err := api.ParseSettings(args, os.Getenv, os.Stderr)
	if err != nil {
		return err
	}
	logger := program.Logger(settings.LogLevel)
	klog.SetSlogLogger(logger)
	reach, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	reach.QPS = -1 // callers are rate-limited instead
	config, err := settings.Open(ctx, reach, logger)
	if err != nil {
		return err
	}
	main, err := api.New(config)
	if err != nil {
		return err
	}
	return main.Run(ctx)
}
