// Command traffic-manager gives the traffic containers of forks their captures, stores the requests that they record, and serves these to readers.
// It records the requests of external and virtual workloads itself.
package main

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/sidecars/traffic/manager"
)

func main() { program.Main("traffic-manager ended", run) }

func run(ctx context.Context, args []string) error {
	settings, err := manager.ParseSettings(args, os.Stderr)
	if err != nil {
		return err
	}
	logger := program.Logger(settings.LogLevel)
	klog.SetSlogLogger(logger)
	ctrl.SetLogger(klog.Background())
	access, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	access.QPS = -1 // callers are rate-limited instead
	certificate, err := trust.Open(trust.Config{Dir: settings.TLSDir, Name: "traffic-manager." + settings.Namespace + ".svc", Logger: logger})
	if err != nil {
		return err
	}
	config := manager.Config{
		REST: access, TLS: certificate, Namespace: settings.Namespace, Readers: settings.Readers, Always: settings.Always,
		Store: settings.Store, StoreBytes: settings.StoreBytes, Replica: settings.Replica,
		Address: settings.Address, HealthAddress: settings.HealthAddress, Logger: logger, Metrics: program.Registry(),
	}
	all, ctx := errgroup.WithContext(ctx)
	if settings.TicketKeys != "" {
		config.TicketKeys = ticketKeys(ctx, all, settings.TicketKeys, logger)
	}
	main, err := manager.New(config)
	if err != nil {
		return err
	}
	if settings.Token != "" {
		if err := record(ctx, all, settings, config); err != nil {
			return err
		}
	}
	all.Go(func() error { return main.Run(ctx) })
	return all.Wait()
}
