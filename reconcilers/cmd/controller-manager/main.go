// Command controller-manager runs all controllers, the injecting webhook and the writer of the routing
// log. See switchyard.dev/reconcilers/manager. With "drain" as its first argument it removes the
// operator's objects from the cluster instead, and exits: see switchyard.dev/reconcilers/drain.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/reconcilers/drain"
	"switchyard.dev/reconcilers/manager"
)

func main() {
	manager.SpareMemory()
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		slog.Error("the program ended", "error", err)
		os.Exit(drain.ExitCode(err))
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == drain.Name {
		return drain.Main(ctx, args[1:], os.Stderr)
	}
	settings, err := manager.ParseSettings(args, os.Getenv, os.Stderr)
	if err != nil {
		return err
	}
	logger := program.Logger(settings.LogLevel)
	klog.SetSlogLogger(logger)
	ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))

	access, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config, bus, err := settings.Open(access, logger)
	if err != nil {
		return err
	}
	defer bus.Close()
	main, err := manager.New(ctx, config)
	if err != nil {
		return err
	}
	return main.Run(ctx)
}
