package pipeline

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/routeserver/api"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/xds/endpoint"
)

// bus runs the event bus in this process and gives its log.
func (w *world) bus() *jetstream.Log {
	w.t.Helper()
	bus, err := embedded.Start(embedded.Config{StoreDir: w.t.TempDir(), Logger: w.logger})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(bus.Close)
	conn, err := bus.Conn(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(conn.Close)
	log, err := jetstream.New(jetstream.Config{Conn: conn})
	if err != nil {
		w.t.Fatal(err)
	}
	return log
}

// control runs the controllers and the writer of the log.
func (w *world) control(log *jetstream.Log) {
	w.t.Helper()
	main, err := manager.New(w.ctx, manager.Config{
		REST: w.api, Log: log, RouteServer: w.grpc, Trust: w.tls.roots, WithoutWebhook: true, MetricsAddress: "0", HealthAddress: "0", SeveralInProcess: true, Logger: w.logger,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.run("the controller manager", main.Run)
}

// serve runs the route server, with xDS on an address that the pod can reach.
func (w *world) serve(log *jetstream.Log) {
	w.t.Helper()
	kube, err := kubernetes.NewForConfig(w.api)
	if err != nil {
		w.t.Fatal(err)
	}
	xds := make(chan string, 1)
	var sidecars connected
	routes, err := server.New(server.Config{
		Log: log, Logger: w.logger, Sidecars: &sidecars, TLS: w.tls.folder,
		GRPCAddress: "127.0.0.1:0", RESTAddress: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0",
		Parts: []server.Part{func(ctx context.Context, v *view.View) error {
			e, err := endpoint.New(endpoint.Config{View: v, Client: kube, Address: w.pod.Host.String() + ":0", TLS: w.tls.folder, RequireTLS: true, Logger: w.logger})
			if err != nil {
				return err
			}
			sidecars.endpoint.Store(e)
			xds <- e.Address()
			return e.Run(ctx)
		}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.rest, w.grpc = "http://"+routes.RESTAddress(), routes.GRPCAddress()
	w.run("the route server", routes.Run)
	select {
	case address := <-xds:
		w.cable = w.lay(address)
		w.xds = w.cable.address
	case <-time.After(patience):
		w.t.Fatal("xDS does not listen")
	}
}

// connected are the sidecars of an endpoint that is there later.
type connected struct {
	endpoint atomic.Pointer[endpoint.Endpoint]
}

func (c *connected) Sidecars() []api.Sidecar {
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

// run runs a part until the test ends. A part that ends before fails the test.
func (w *world) run(name string, part func(context.Context) error) {
	done := make(chan error, 1)
	go func() { done <- part(w.ctx) }()
	w.t.Cleanup(func() {
		ended := w.ctx.Err() == nil && len(done) > 0
		w.cancel()
		if err := <-done; ended || err != nil {
			w.t.Errorf("%s ended with %v", name, err)
		}
	})
}

// logger shows warnings, and everything with SWITCHYARD_VERBOSE set.
func logger(t *testing.T) *slog.Logger {
	level := slog.LevelError
	if os.Getenv("SWITCHYARD_VERBOSE") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level}))
}
