// Command traffic-manager gives the traffic containers of forks their captures, stores the requests that they record, and serves these to readers.
// It records the requests of external workloads itself.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/reread"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/sidecars/traffic/attach"
	"switchyard.dev/sidecars/traffic/manager"
	"switchyard.dev/sidecars/traffic/ticket"
)

// drain is how long connections are passed on after the end has begun.
const drain = 10 * time.Second

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
		keys, err := reread.Open(settings.TicketKeys, ticket.ParseKeys)
		if err != nil {
			logger.Warn("the keys of tickets cannot be read yet, so no ticket is accepted; the manager makes them", "error", err)
		}
		config.TicketKeys = keys.Current
		all.Go(func() error { return keys.Run(ctx, logger) })
	}
	main, err := manager.New(config)
	if err != nil {
		return err
	}
	if settings.Token != "" {
		roots, err := trust.ReadRoots(filepath.Join(settings.TLSDir, "ca.crt"), settings.TLSDir)
		if err != nil {
			return err
		}
		own := attach.Config{
			Manager: manager.DeploymentName + "." + settings.Namespace + ".svc:7444", Roots: roots, Logger: logger,
			TokenFile: settings.Token, StateFile: filepath.Join(settings.Store, "attachments"),
		}
		// Callers learn one by one that this replica ends: it serves its ports until then.
		serving, end := context.WithCancel(context.WithoutCancel(ctx))
		all.Go(func() error {
			<-ctx.Done()
			time.Sleep(drain)
			end()
			return nil
		})
		all.Go(func() error { return attach.Run(serving, own) })
	}
	all.Go(func() error { return main.Run(ctx) })
	return all.Wait()
}
