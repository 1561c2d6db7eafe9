package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/eventbus/memory"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/sidecars/certs"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/sidecars/webhook"
)

// orders are what the process of the manager is to do.
type orders struct {
	// Host and the rest reach the API server.
	Host            string
	CA, Cert, Key   []byte
	Webhook, Health string
	Metrics         string
	// Behind is how far the webhook's clock is behind. Where it is, only the
	// webhook runs: the manager's other parts have no clock to set.
	Behind time.Duration
}

// manage is the process of the manager. It reads its orders from its input, and
// ends when that does.
func manage() error {
	in := json.NewDecoder(os.Stdin)
	var o orders
	if err := in.Decode(&o); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin) // However it ends, this ends.
	}()
	err := o.run(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (o orders) run(ctx context.Context) error {
	access := &rest.Config{Host: o.Host, TLSClientConfig: rest.TLSClientConfig{CAData: o.CA, CertData: o.Cert, KeyData: o.Key}}
	// What matters is returned; the rest is of a manager that ends while it starts.
	log := slog.New(slog.DiscardHandler)
	ctrllog.SetLogger(logr.Discard())
	images := inject.Config{Sidecar: inject.Container{Image: "sidecar"}, Redirect: inject.Container{Image: "redirect"}}.WithDefaults()
	if o.Behind > 0 {
		injector, err := webhook.New(webhook.Config{
			REST: access, Inject: images, Address: o.Webhook, Metrics: prometheus.NewRegistry(), Log: log,
			Certs: certs.Config{Now: func() time.Time { return time.Now().Add(-o.Behind) }},
		})
		if err != nil {
			return err
		}
		return injector.Start(ctx)
	}
	main, err := manager.New(ctx, manager.Config{
		REST: access, Log: memory.New(), Inject: images, Logger: log,
		WebhookAddress: o.Webhook, HealthAddress: o.Health, MetricsAddress: o.Metrics,
	})
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	return main.Run(ctx)
}
