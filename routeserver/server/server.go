package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/credentials"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/scrapes"
	"switchyard.dev/eventbus/readers"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/routeserver/api"
	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/routeserver/door"
	routesgrpc "switchyard.dev/routeserver/grpc"
	"switchyard.dev/routeserver/history"
	"switchyard.dev/routeserver/rest"
	"switchyard.dev/routeserver/view"
)

// Main is a route server.
type Main struct {
	cfg                 Config
	view                *view.View
	history             *history.History
	api                 *api.Server
	grpc                *routesgrpc.Server
	rest                *rest.Server
	onGRPC, onREST, onM *callers.Listener
}

// New opens the listeners and makes everything ready to Run. The caller calls
// Run or Close.
func New(cfg Config) (*Main, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Main{cfg: cfg}
	var err error
	if m.view, err = view.New(view.Config{Log: cfg.Log, Logger: cfg.Logger, Metrics: cfg.Metrics}); err != nil {
		return nil, err
	}
	past, err := readers.Bound(cfg.Past, readers.AtOnce, readers.Patience)
	if err != nil {
		return nil, err
	}
	if m.history, err = history.New(history.Config{Log: cfg.Log, Past: past, Logger: cfg.Logger}); err != nil {
		return nil, err
	}
	if m.api, err = api.New(api.Config{
		Tables: m.view, Log: cfg.Log, History: m.history, Sidecars: cfg.Sidecars, Peers: cfg.Peers,
		Keys: cfg.Keys, Services: cfg.Services, Name: cfg.Name, Logger: cfg.Logger, Metrics: cfg.Metrics,
	}); err != nil {
		return nil, err
	}
	if m.grpc, err = routesgrpc.New(routesgrpc.Config{
		Tables: m.view, Services: cfg.Services, Register: m.api.Register, Entrance: m.entrance(&m.onGRPC), Credentials: m.credentials(),
		Logger: cfg.Logger, Metrics: cfg.Metrics,
	}); err != nil {
		return nil, err
	}
	if m.rest, err = rest.New(rest.Config{Tables: m.view, API: m.api.Register, Entrance: m.entrance(&m.onREST), Logger: cfg.Logger}); err != nil {
		return nil, err
	}
	if err := m.listen(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// credentials returns the credentials of gRPC: on one port, TLS for connections that begin with a
// TLS handshake, if there is a certificate, and plaintext for published clients.
func (m *Main) credentials() credentials.TransportCredentials {
	if m.cfg.TLS == nil {
		return nil
	}
	return trust.ServerCredentials(m.cfg.TLS.Server(), true)
}

// entrance returns the way in through a listener, which is opened later.
func (m *Main) entrance(at **callers.Listener) door.Entrance {
	return door.Entrance{Door: m.cfg.Door, At: func() door.Listener {
		if *at == nil {
			return nil
		}
		return *at
	}}
}

func (m *Main) listen() error {
	for _, one := range []struct {
		name, address string
		listener      **callers.Listener
	}{
		{"grpc", m.cfg.GRPCAddress, &m.onGRPC}, {"rest", m.cfg.RESTAddress, &m.onREST}, {"metrics", m.cfg.MetricsAddress, &m.onM},
	} {
		// Over HTTP each response has a separate deadline.
		within := time.Duration(0)
		if one.listener == &m.onGRPC {
			within = callers.WriteWithin
		}
		l, err := callers.Listen(one.address, one.name, m.cfg.MaxConnections, within, m.cfg.Logger)
		if err != nil {
			return fmt.Errorf("route server: %w", err)
		}
		*one.listener = l
		if err := l.CountClosed(m.cfg.Metrics, "switchyard_routeserver_connections_closed_total", prometheus.Labels{"listener": one.name}); err != nil {
			return fmt.Errorf("route server: %w", err)
		}
	}
	return nil
}

// View is the table that is served.
func (m *Main) View() *view.View { return m.view }

// GRPCAddress is where the routes API is served over gRPC, as host:port.
func (m *Main) GRPCAddress() string { return m.onGRPC.Addr().String() }

// RESTAddress is where the routes API is served over HTTP, as host:port.
func (m *Main) RESTAddress() string { return m.onREST.Addr().String() }

// MetricsAddress is where /metrics is served, as host:port.
func (m *Main) MetricsAddress() string { return m.onM.Addr().String() }

// Run serves until ctx ends and returns nil then, or until a part fails, which
// ends the others too. It closes the listeners. Call it once.
func (m *Main) Run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, m.api.Stop)()
	all.Go(func() error { return m.view.Run(ctx) })
	all.Go(func() error { return m.history.Run(ctx) })
	all.Go(func() error { return m.grpc.Serve(ctx, m.onGRPC) })
	all.Go(func() error { return m.rest.Serve(ctx, m.onREST) })
	all.Go(func() error { return serveMetrics(ctx, m.onM, m.cfg.Metrics) })
	if m.cfg.TLS != nil {
		all.Go(func() error { return m.cfg.TLS.Run(ctx) })
	}
	for _, part := range m.cfg.Parts {
		all.Go(func() error { return part(ctx, m.view) })
	}
	return all.Wait()
}

// Close closes the listeners of a Main that is not run.
func (m *Main) Close() error { return callers.Close(m.onGRPC, m.onREST, m.onM) }

// Part is something else that serves the view beside the routes API, such as
// xDS. It runs until ctx ends and returns nil then; an error ends the server.
type Part func(ctx context.Context, v *view.View) error

// Config is what a Main needs.
type Config struct {
	// Log is the log to follow. Required.
	Log eventbus.Reader
	// Past is the same log, over a separate connection, for callers that read the log, a history or
	// a version: at most readers.AtOnce of them read it concurrently. Default: Log.
	Past eventbus.Reader
	// Services answers GetClusterServices. Without it the call is UNIMPLEMENTED.
	Services routesgrpc.Services
	// Sidecars are those connected to this route server. Without it it has none.
	Sidecars receipts.Sidecars
	// Peers are the other route servers. Without it there are none.
	Peers receipts.Peers
	// Keys takes the routing key out of a request's headers, for Explain. Without it
	// Explain takes keys only.
	Keys api.Keys
	// Door identifies callers. Without it all callers are anonymous, known by address.
	Door *door.Door
	// TLS, if not nil, is the certificate to serve gRPC with, beside plain gRPC. It is
	// watched while the server runs. RequireTLS is for the parts that are served beside
	// the routes API, which turn plain connections away with it.
	TLS        *trust.Folder
	RequireTLS bool
	// Name is the name of this route server in reports about sidecars. Default: routeserver.
	Name string
	// Addresses to listen on, as host:port. Defaults: :7777 for gRPC, :7778 for
	// REST, :9090 for metrics.
	GRPCAddress, RESTAddress, MetricsAddress string
	// MaxConnections limits the open connections of anonymous clients on each listener; above it,
	// the connections that were idle longest are closed, from the client with the most
	// (callers.Listener). Default: 8192.
	MaxConnections int
	// Parts run beside the routes API.
	Parts []Part
	// Logger receives the log of the server. Default: no logging.
	Logger *slog.Logger
	// Metrics has the numbers of all parts. Default: a new one.
	Metrics *prometheus.Registry
}

// Validate returns an error that describes the first invalid field of a Config, or nil.
func (c Config) Validate() error {
	switch {
	case c.Log == nil:
		return errors.New("route server: Config.Log is missing: set the log to follow")
	case c.MaxConnections < 0:
		return errors.New("route server: Config.MaxConnections must not be negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.GRPCAddress = cmp.Or(c.GRPCAddress, ":7777")
	c.RESTAddress = cmp.Or(c.RESTAddress, ":7778")
	c.MetricsAddress = cmp.Or(c.MetricsAddress, ":9090")
	c.Past = cmp.Or(c.Past, c.Log)
	c.MaxConnections = cmp.Or(c.MaxConnections, 8192)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Metrics = cmp.Or(c.Metrics, prometheus.NewRegistry())
	return c
}

// serveMetrics answers /metrics until ctx ends.
func serveMetrics(ctx context.Context, listener net.Listener, registry *prometheus.Registry) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scrapes.New(registry))
	if err := callers.ServeProbes(ctx, listener, mux); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}
