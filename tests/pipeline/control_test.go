package pipeline

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/cable"
	"switchyard.dev/xds/endpoint"
)

// bus runs the event bus in this process and gives its log.
func (w *path) bus() eventbus.Log {
	w.Helper()
	bus, err := frame.OpenBus(w.Context(), embedded.Config{StoreDir: w.TempDir(), Logger: w.logger}, jetstream.Config{})
	w.Must(err)
	w.Cleanup(bus.Close)
	return bus.Log
}

// control runs the controllers and the writer of the log.
func (w *path) control(log eventbus.Log, settings ...func(*manager.Config)) {
	w.Helper()
	config := manager.Config{
		REST: w.As(""), Log: log, RouteServer: w.grpc, Trust: w.tls.roots, WithoutWebhook: true, MetricsAddress: "0", HealthAddress: "0", SeveralInProcess: true, Logger: w.logger,
	}
	for _, set := range settings {
		set(&config)
	}
	main, err := manager.New(w.Context(), config)
	w.Must(err)
	background.Run(w, main.Run)
}

// serve runs the route server, with xDS on an address that the pod can reach.
func (w *path) serve(log eventbus.Log) {
	w.Helper()
	xds := make(chan string, 1)
	var sidecars connected
	routes, err := server.New(server.Config{
		Log: log, Logger: w.logger, Sidecars: &sidecars, TLS: w.tls.folder,
		GRPCAddress: "127.0.0.1:0", RESTAddress: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0",
		Parts: []server.Part{func(ctx context.Context, v *view.View) error {
			e, err := endpoint.New(endpoint.Config{View: v, Client: w.Kube, Address: w.pod.Host.String() + ":0", TLS: w.tls.folder, RequireTLS: true, Logger: w.logger})
			if err != nil {
				return err
			}
			sidecars.endpoint.Store(e)
			xds <- e.Address()
			return e.Run(ctx)
		}},
	})
	w.Must(err)
	w.rest, w.grpc = "http://"+routes.RESTAddress(), routes.GRPCAddress()
	background.Run(w, routes.Run)
	select {
	case address := <-xds:
		w.cable = cable.Lay(w, w.pod.Host.String(), address)
		w.xds = w.cable.Address
	case <-time.After(patience):
		w.Fatal("xDS does not listen")
	}
}

// connected are the sidecars of an endpoint that is there later.
type connected struct {
	endpoint atomic.Pointer[endpoint.Endpoint]
}

func (c *connected) Sidecars() []receipts.Sidecar {
	if e := c.endpoint.Load(); e != nil {
		return e.Sidecars()
	}
	return nil
}

func (c *connected) Acknowledged() <-chan struct{} {
	if e := c.endpoint.Load(); e != nil {
		return e.Acknowledged()
	}
	return nil
}

// logger shows warnings, and everything with SWITCHYARD_VERBOSE set.
func logger(t *testing.T) *slog.Logger {
	level := slog.LevelError
	if os.Getenv("SWITCHYARD_VERBOSE") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level}))
}
