package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/routeserver/api"
	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/routeserver/door"
	routesgrpc "switchyard.dev/routeserver/grpc"
	"switchyard.dev/routeserver/view"
)

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
