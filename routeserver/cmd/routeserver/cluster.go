package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/routeserver/door"
	"switchyard.dev/routeserver/podaddr"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/services"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/xds/endpoint"
)

// serveCluster adds the functions that need the cluster in which the program runs: the list of
// Services, the identification of callers, and xDS, for which the API server authenticates
// sidecars. Outside a cluster it adds nothing.
func serveCluster(config *server.Config, settings server.Settings, logger *slog.Logger) error {
	klog.SetSlogLogger(logger)
	access, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		if settings.Anonymous != door.Cluster {
			return fmt.Errorf("-anonymous=%s: not in a cluster, so tokens cannot be checked", settings.Anonymous)
		}
		logger.Info("not in a cluster: neither its services nor xDS are served")
		return nil
	}
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	// Many sidecars may come back at once, each with a token to be reviewed.
	access.QPS, access.Burst = 50, 200
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	if config.Door, err = openDoor(access, client, settings); err != nil {
		return err
	}
	lister, err := services.New(client, logger)
	if err != nil {
		return err
	}
	config.Services = lister
	var connected sidecars
	config.Sidecars = &connected
	config.Parts = append(config.Parts,
		func(ctx context.Context, _ *view.View) error {
			lister.Run(ctx)
			return nil
		},
		func(ctx context.Context, v *view.View) error {
			xds, err := endpoint.New(endpoint.Config{
				View: v, Client: client, Address: settings.XDSAddress,
				TLS: config.TLS, RequireTLS: config.RequireTLS, Logger: logger, Metrics: config.Metrics,
			})
			if err != nil {
				return err
			}
			connected.endpoint.Store(xds)
			return xds.Run(ctx)
		})
	return nil
}

// openDoor returns the Door that identifies callers. Pods are searched with a separate client, so
// that anonymous callers do not delay sidecars; the Finder limits its queries by caller.
func openDoor(access *rest.Config, client kubernetes.Interface, settings server.Settings) (*door.Door, error) {
	verifier, err := tokens.New(tokens.Config{Reviews: client.AuthenticationV1().TokenReviews(), Audience: door.Audience})
	if err != nil {
		return nil, err
	}
	config := door.Config{Verify: verifier.VerifyAdmitted, Own: settings.OwnAccounts, Anonymous: settings.Anonymous}
	if settings.Anonymous == door.Namespace {
		access = rest.CopyConfig(access)
		access.QPS, access.ContentType = -1, "application/vnd.kubernetes.protobuf"
		pods, err := corev1.NewForConfig(access)
		if err != nil {
			return nil, fmt.Errorf("reach the cluster: %w", err)
		}
		finder, err := podaddr.New(podaddr.Config{Pods: pods})
		if err != nil {
			return nil, err
		}
		config.Namespace = finder.Namespace
	}
	return door.New(config), nil
}

// sidecars are those connected to the xDS endpoint, once there is one.
type sidecars struct {
	endpoint atomic.Pointer[endpoint.Endpoint]
}

// Sidecars implements receipts.Sidecars.
func (s *sidecars) Sidecars() []receipts.Sidecar {
	if e := s.endpoint.Load(); e != nil {
		return e.Sidecars()
	}
	return nil
}

// Acknowledged implements receipts.Acknowledging; it returns nil before there is an endpoint.
func (s *sidecars) Acknowledged() <-chan struct{} {
	if e := s.endpoint.Load(); e != nil {
		return e.Acknowledged()
	}
	return nil
}
