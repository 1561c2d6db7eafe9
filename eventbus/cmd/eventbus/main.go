// Command eventbus keeps the routing log and hands it to the controllers and the
// route servers of this cluster. See package eventbus/server.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/server"
)

func main() { program.Main("the event bus ended", run) }

func run(ctx context.Context, args []string) error {
	settings, err := server.ParseSettings(args, os.Getenv, os.Stderr)
	if err != nil {
		return err
	}
	logger := program.Logger(settings.LogLevel)
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
