package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/eventbus/reread"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/sidecars/traffic/attach"
	"switchyard.dev/sidecars/traffic/manager"
	"switchyard.dev/sidecars/traffic/ticket"
)

// drain is how long connections are passed on after the end has begun.
const drain = 10 * time.Second

// record starts to record requests of external and virtual workloads in this process, as the traffic container does those of forks.
func record(ctx context.Context, all *errgroup.Group, s manager.Settings, c manager.Config) error {
	roots, err := trust.ReadRoots(filepath.Join(s.TLSDir, "ca.crt"), s.TLSDir)
	if err != nil {
		return err
	}
	callers, err := manager.NewSidecarCallers(c.Metrics, c.Logger)
	if err != nil {
		return err
	}
	own := attach.Config{
		Manager: manager.DeploymentName + "." + s.Namespace + ".svc:7444", Roots: roots, Logger: c.Logger,
		TokenFile: s.Token, StateFile: filepath.Join(s.Store, "attachments"), Callers: callers,
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
	return nil
}

// ticketKeys returns the keys that tickets are checked with, which are in a file and read again when it changes.
func ticketKeys(ctx context.Context, all *errgroup.Group, file string, logger *slog.Logger) func() *ticket.Keys {
	keys, err := reread.Open(file, ticket.ParseKeys)
	if err != nil {
		logger.Warn("the keys of tickets cannot be read yet, so no ticket is accepted; the manager makes them", "error", err)
	}
	all.Go(func() error { return keys.Run(ctx, logger) })
	return keys.Current
}
