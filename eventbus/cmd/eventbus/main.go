// Command eventbus keeps the routing log and hands it to the controllers and the
// route servers of this cluster. See package eventbus/server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/server"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		slog.Error("the event bus ended", "error", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	settings, err := server.ParseSettings(args, os.Stderr)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: settings.LogLevel}))
	slog.SetDefault(logger)
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("reach the API server, which vouches for the clients: %w", err)
	}
	// After a restart all clients come at once, and each needs one question.
	config.QPS, config.Burst = 50, 200
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("reach the API server, which vouches for the clients: %w", err)
	}
	s, err := server.Start(server.Config{Settings: settings, Reviews: kube.AuthenticationV1().TokenReviews(), Logger: logger})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Run(ctx)
}
