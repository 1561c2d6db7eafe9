package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/services"
	"switchyard.dev/routeserver/view"
)

// serveCluster adds what is served with the help of the cluster that the program
// runs in: its services. Outside a cluster it adds nothing.
func serveCluster(config *server.Config, logger *slog.Logger) error {
	klog.SetSlogLogger(logger)
	access, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		logger.Info("not in a cluster: its services are not served")
		return nil
	}
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	return serveServices(config, client)
}

// serveServices answers GetClusterServices from the cluster.
func serveServices(config *server.Config, client kubernetes.Interface) error {
	lister, err := services.New(client, config.Logger)
	if err != nil {
		return err
	}
	config.Services = lister
	config.Parts = append(config.Parts, func(ctx context.Context, _ *view.View) error {
		lister.Run(ctx)
		return nil
	})
	return nil
}
