package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/eventbus/memory"
	"switchyard.dev/eventbus/trust/authority"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/sidecars/webhook"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/process"
)

// roleManager is the process of the manager.
const roleManager = "manager"

// routingLog is where the manager keeps what its log has reached.
const routingLog = "switchyard-routing-log"

// Orders are what the process of the manager is to do.
type Orders struct {
	Access                   apiserver.Access
	Webhook, Health, Metrics string
	// Behind is how far the webhook's clock is behind. Where it is, only the
	// webhook runs: the manager's other parts have no clock to set.
	Behind time.Duration
}

// startManager starts this program again as the manager. Each has a routing log of
// its own, which is not held against that of the one before. Closed, it ends as a pod does.
func (r *rig) startManager(ctx context.Context, o Orders) (*process.Process, error) {
	err := r.client.CoreV1().ConfigMaps(operator).Delete(ctx, routingLog, metav1.DeleteOptions{})
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	manager, err := process.Start(roleManager)
	if err != nil {
		return nil, err
	}
	if err := manager.Call("Start", o, nil); err != nil {
		return nil, errors.Join(err, manager.Close())
	}
	return manager, nil
}

// Manager is the process of the manager, as the first one calls it.
type Manager struct {
	ctx     context.Context
	running sync.WaitGroup
	err     error
}

// Start starts the manager.
func (m *Manager) Start(o Orders, _ *struct{}) error {
	m.running.Go(func() { m.err = o.run(m.ctx) })
	return nil
}

// manage is the manager until its starter ends it.
func manage(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	m := &Manager{ctx: ctx}
	err := process.Answer(m)
	end()
	m.running.Wait()
	if errors.Is(m.err, context.Canceled) {
		return err
	}
	return errors.Join(err, m.err)
}

func (o Orders) run(ctx context.Context) error {
	access := o.Access.Config()
	// What matters is returned; the rest is of a manager that ends while it starts.
	log := slog.New(slog.DiscardHandler)
	ctrllog.SetLogger(logr.Discard())
	images := inject.Config{Sidecar: inject.Container{Image: "sidecar"}, Redirect: inject.Container{Image: "redirect"}}.WithDefaults()
	if o.Behind > 0 {
		injector, err := webhook.New(webhook.Config{
			REST: access, Inject: images, Address: o.Webhook, Metrics: prometheus.NewRegistry(), Log: log,
			Certs: authority.Config{Now: func() time.Time { return time.Now().Add(-o.Behind) }},
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
