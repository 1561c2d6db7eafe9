package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/protos"
	"switchyard.dev/routeserver/answers"
	"switchyard.dev/routeserver/door"
	"switchyard.dev/routeserver/table"
)

// Tables provides the newest table. A *view.View is one.
type Tables interface {
	Current() (table.Table, <-chan struct{})
}

// Config is what a Server needs.
type Config struct {
	// Tables is where rules come from. Required.
	Tables Tables
	// API puts our own API behind a gRPC server: an api.Server's Register. Without
	// it the paths of our own API are not found.
	API func(grpc.ServiceRegistrar)
	// Entrance identifies callers. Default: all callers are anonymous, known by address.
	Entrance door.Entrance
	// Logger receives the log of the server. Default: no logging.
	Logger *slog.Logger
	// RequestWithin and AnswerWithin are how long a request may take to come, and
	// its answer to be taken; of our own API, each message of a stream. Default:
	// 10 s and 30 s.
	RequestWithin, AnswerWithin time.Duration
	// StopWithin is how long requests may take to end once the server stops.
	// Default: 5 s.
	StopWithin time.Duration
}

// Validate returns an error that describes the first invalid field of a Config, or nil.
func (c Config) Validate() error {
	switch {
	case c.Tables == nil:
		return errors.New("rest: Config.Tables is missing: give the view to serve")
	case c.StopWithin < 0 || c.RequestWithin < 0 || c.AnswerWithin < 0:
		return errors.New("rest: durations in Config must not be negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.RequestWithin = cmp.Or(c.RequestWithin, 10*time.Second)
	c.AnswerWithin = cmp.Or(c.AnswerWithin, 30*time.Second)
	c.StopWithin = cmp.Or(c.StopWithin, 5*time.Second)
	return c
}

// The paths of the published API; the second one is deprecated. Their responses are restricted to
// the caller's scope.
const rulesPath, routesPath = "/api/v1/workloads/routing-rules", "/api/v1/workloads/routes"

// Server serves the published routes API, and the operator's own, over HTTP.
type Server struct {
	cfg Config
	mux *http.ServeMux
	// answers caches the responses of rules, requests limits their callers.
	answers  answers.Store
	requests *callers.Pool
	// entered is mux, behind the Entrance.
	entered http.Handler
	// api is nil when the operator's own API is not served.
	api *gateway
}

// New returns a server that answers once Serve is called.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Server{cfg: cfg, mux: http.NewServeMux(), requests: answers.Requests()}
	s.entered = cfg.Entrance.HTTP(s.mux, rulesPath, routesPath)
	s.mux.HandleFunc("GET "+rulesPath, s.rules("routingRules"))
	s.mux.HandleFunc("GET "+routesPath, s.rules("routingRules", "routes"))
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	s.mux.HandleFunc("GET /readyz", s.ready)
	s.mux.HandleFunc("GET /api/v1/openapi.json", s.openAPI(protos.RoutesOpenAPI))
	if cfg.API == nil {
		return s, nil
	}
	var err error
	if s.api, err = newGateway(cfg.API, cfg.AnswerWithin); err != nil {
		return nil, err
	}
	s.mux.Handle(apiPath, s.api)
	s.mux.HandleFunc("GET /openapi.json", s.openAPI(protos.RoutingOpenAPI))
	for _, path := range []string{"GET /{$}", "GET /api", "GET /api/{$}", "GET " + apiPath + "{$}"} {
		s.mux.HandleFunc(path, serveIndex)
	}
	return s, nil
}

// ready reports whether rules are served. A table that was whole once stays so:
// losing the log does not make a server unready.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if t, _ := s.cfg.Tables.Current(); !t.Whole() {
		http.Error(w, notWhole, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.entered.ServeHTTP(w, r) }

// Serve serves on a listener until ctx ends, waits StopWithin for requests to finish, and returns
// nil. Any other end is an error. It closes the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       s.cfg.RequestWithin,
		WriteTimeout:      s.cfg.AnswerWithin,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 2)
	go func() { served <- server.Serve(listener) }()
	if s.api != nil {
		go func() { served <- s.api.run() }()
		defer s.api.stop()
	}
	s.cfg.Logger.Info("serving the routes API over HTTP", "address", listener.Addr().String())
	select {
	case err := <-served:
		return fmt.Errorf("serve the routes API on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StopWithin)
	defer cancel()
	if err := server.Shutdown(within); err != nil {
		return errors.Join(fmt.Errorf("stop serving the routes API over HTTP: %w", err), server.Close())
	}
	return nil
}

const index = `Switchyard route server

GET /openapi.json                       our own API, described as OpenAPI 2.0
    /api/switchyard/v1/                 our own API: lookup, explain, table, diff,
                                        dry-run, history, kept, watch, log, wait,
                                        sidecars
GET /api/v1/openapi.json                the published routes API, described as OpenAPI 3.0
GET /api/v1/workloads/routing-rules     the published routes API
GET /healthz, /readyz                   for probes
`

// description is the relation of the OpenAPI document to the API (RFC 8631).
const description = `</openapi.json>; rel="service-desc"`

func serveIndex(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Link", description)
	fmt.Fprint(w, index)
}

// openAPI serves the description of an API.
func (s *Server) openAPI(document []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-cache")
		if _, err := w.Write(document); err != nil {
			s.cfg.Logger.Debug("a client closed its connection while its answer was written", "client", r.RemoteAddr, "error", err)
		}
	}
}
