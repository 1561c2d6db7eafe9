// Command agent connects the cluster to a control plane: it keeps one outbound session, through which the
// control plane reaches Services and the Kubernetes API.
package main

import (
	"context"
	"fmt"
	"os"

	_ "golang.org/x/crypto/x509roots/fallback" // for HTTPS proxies and --system-ca: the image has no authorities
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"switchyard.dev/controlplane-link/agent"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/sidecars/devmesh"
)

func main() { program.Main("agent ended", run) }

func run(ctx context.Context, args []string) error {
	settings, err := agent.ParseSettings(args, os.Stderr)
	if err != nil {
		return err
	}
	settings.SidecarPorts = []uint16{devmesh.ListenerPort, devmesh.ReadinessPort}
	logger := program.Logger(settings.LogLevel)
	klog.SetSlogLogger(logger)
	access, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	access.QPS = -1 // the control plane limits its callers
	main, err := settings.Open(access, os.Stdout, logger)
	if err != nil {
		return err
	}
	return main.Run(ctx)
}
