package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/bench/frame"
)

// roleManager is the process of the manager.
const roleManager = "manager"

// Orders are what the process of the manager is to work with.
type Orders struct {
	Access apiserver.Access
	// Bus is the URL of the event bus, and Token a file with the token for it.
	Bus, Token string
	// Profiles is a directory for profiles; empty for none.
	Profiles string
}

// Standing is where the manager stands.
type Standing struct {
	// Asked is how often it has asked the API server, in each way.
	Asked map[Asked]int
	// Reconciled is how often each controller has reconciled an object.
	Reconciled map[string]int
	// Waiting is how many objects are to be reconciled.
	Waiting int
	// LogReady is why the routing log is not whole; empty when it is.
	LogReady string
	// Heap is what of Go's heap is in use, in MiB.
	Heap float64
}

// managing is the process of the manager.
type managing struct {
	counter counter
	main    *manager.Main
	ended   chan error
	orders  Orders
	// profiled stops the running profiles.
	profiled func() error
}

func newManaging() *managing {
	manager.SpareMemory()
	return &managing{counter: counter{of: map[Asked]int{}}, ended: make(chan error, 1)}
}

// Start starts the manager.
func (m *managing) Start(o Orders, _ *struct{}) error {
	m.orders = o
	// Only errors are logged; everything else would be a line for each sandbox.
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
	routing, _, err := connect.Open(connect.Config{URL: o.Bus, Role: connect.Writer, TokenFile: o.Token, Name: "manager", Logger: log}, jetstream.Config{})
	if err != nil {
		return err
	}
	access := o.Access.Config()
	access.Wrap(m.counter.wrap)
	ctx := context.Background()
	m.main, err = manager.New(ctx, manager.Config{
		REST: access, Log: routing, Logger: log, WithoutWebhook: true, MetricsAddress: "0", HealthAddress: "0",
	})
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	go func() { m.ended <- m.main.Run(ctx) }()
	return nil
}

// Look returns the progress of the manager, or the reason why it has ended.
func (m *managing) Look(_ struct{}, s *Standing) error {
	select {
	case err := <-m.ended:
		return errors.Join(errors.New("the manager has ended"), err)
	default:
	}
	s.Asked = m.counter.counts()
	if err := m.main.LogReady(); err != nil {
		s.LogReady = err.Error()
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	s.Heap = float64(memory.HeapInuse) / (1 << 20)
	return s.count()
}

// count reads the metrics of controllers.
func (s *Standing) count() error {
	families, err := metrics.Registry.Gather()
	if err != nil {
		return err
	}
	s.Reconciled = map[string]int{}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			switch f.GetName() {
			case "controller_runtime_reconcile_total":
				for _, l := range metric.GetLabel() {
					if l.GetName() == "controller" {
						s.Reconciled[l.GetValue()] += int(metric.GetCounter().GetValue())
					}
				}
			case "workqueue_depth":
				s.Waiting += int(metric.GetGauge().GetValue())
			case "controller_runtime_active_workers":
				s.Waiting += int(metric.GetGauge().GetValue())
			}
		}
	}
	return nil
}

// Profile begins profiles, or ends them.
func (m *managing) Profile(begin bool, _ *struct{}) (err error) {
	if !begin {
		return m.profiled()
	}
	m.profiled, err = frame.Profile(m.orders.Profiles, "manager")
	return err
}
