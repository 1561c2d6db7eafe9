// Command tunnel-proxy forwards connections between workstations and the cluster, in both
// directions, and records each of them on standard output.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tunnels/proxy"
)

func main() { program.Main("the tunnel proxy ended", run) }

func run(ctx context.Context, args []string) error {
	settings, err := proxy.ParseSettings(args, os.Getenv, os.Stderr)
	if err != nil {
		return err
	}
	settings.SidecarPorts = []uint16{devmesh.ListenerPort, devmesh.ReadinessPort}
	logger := program.Logger(settings.LogLevel)
	klog.SetSlogLogger(logger)
	reach, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	reach.QPS = -1 // callers are rate-limited instead
	config, err := settings.Open(ctx, reach, os.Stdout, logger)
	if err != nil {
		return err
	}
	defer config.Audit.Close()
	main, err := proxy.New(config)
	if err != nil {
		return err
	}
	return main.Run(ctx)
}
