package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/scrapes"
	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/workflows/iocontext/store"
)

// Main is an IO context server.
type Main struct {
	cfg        Config
	onAPI, onM *callers.Listener
	// checks bounds how often the API server is asked about tokens of each caller, pods what each
	// pod asks for, and refused how often an address is refused without a wait.
	checks, pods, refused *callers.Pool
	// heavy has a place for each request that may hold values at once; places bounds how many of
	// them one pod may have, bodies how many outputs one pod may send at once, and answers how many
	// assignments one pod may read at once.
	heavy                   chan struct{}
	places, bodies, answers *callers.Pool
	// memory bounds the bytes of outputs that are being received or wait for a place, and answered
	// those of large assignments that are being read.
	memory, answered *semaphore.Weighted
	requests         *prometheus.CounterVec
}

// Limits of concurrent work. An assignment takes three times its inputs in memory.
const (
	atOnce      = 8
	placesOfPod = 2
	// bodyWithin is how long an output may take to arrive, and an assignment to be read.
	bodyWithin = 5 * time.Second
	// maxReceived bounds Main.memory, which is reserved in steps of chunk.
	maxReceived = 64 << 20
	chunk       = 16 << 10
	// maxAnswered bounds Main.answered. Assignments of up to smallAnswer bytes reserve nothing.
	maxAnswered = 128 << 20
	smallAnswer = 32 << 10
	patience    = 10 * time.Second
	readHead    = 5 * time.Second
	readWithin  = 30 * time.Second
	writeWithin = 60 * time.Second
	idleWithin  = 60 * time.Second
	maxHead     = 32 << 10
	// stopWithin is how long requests under way are waited for at the end.
	stopWithin = 5 * time.Second
)

// New opens the listeners. The caller calls Run or Close.
func New(cfg Config) (*Main, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Main{
		cfg: cfg, heavy: make(chan struct{}, atOnce),
		checks:  callers.NewPool("checks of tokens", callers.Bounds{Each: 4, Strangers: 16, Pods: 256, Rate: 5, Burst: 32}),
		pods:    callers.NewPool("requests", callers.Bounds{Each: 4, Pods: callers.AnyNumber, Rate: 50, Burst: 100}),
		places:  callers.NewPool("places", callers.Bounds{Each: placesOfPod, Pods: callers.AnyNumber}),
		bodies:  callers.NewPool("outputs", callers.Bounds{Each: 1, Pods: callers.AnyNumber}),
		answers: callers.NewPool("assignments", callers.Bounds{Each: 1, Pods: callers.AnyNumber}),
		memory:  semaphore.NewWeighted(maxReceived), answered: semaphore.NewWeighted(maxAnswered),
		refused: callers.NewPool("refusals", callers.Bounds{Strangers: cfg.MaxConnections, Rate: 5, Burst: 20}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "switchyard_iocontext_requests_total", Help: "Requests of units' pods and others, by kind and reason of refusal.",
		}, []string{"what", "reason"}),
	}
	if err := cfg.Metrics.Register(m.requests); err != nil {
		return nil, fmt.Errorf("IO context server: %w", err)
	}
	for _, one := range []struct {
		name, address string
		listener      **callers.Listener
	}{{"api", cfg.Address, &m.onAPI}, {"metrics", cfg.MetricsAddress, &m.onM}} {
		l, err := callers.Listen(one.address, one.name, cfg.MaxConnections, 0, cfg.Logger)
		if err == nil {
			*one.listener = l
			err = l.CountClosed(cfg.Metrics, "switchyard_iocontext_connections_closed_total", prometheus.Labels{"listener": one.name})
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("IO context server: %w", err), m.Close())
		}
	}
	return m, nil
}

// Address is where the API is served, as host:port.
func (m *Main) Address() string { return m.onAPI.Addr().String() }

// MetricsAddress is where metrics and health are served, as host:port.
func (m *Main) MetricsAddress() string { return m.onM.Addr().String() }

// Run serves until ctx ends and returns nil then, or until a part fails. It closes the
// listeners. Call it once.
func (m *Main) Run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return m.cfg.TLS.Run(ctx) })
	all.Go(func() error { return m.serve(ctx) })
	all.Go(func() error {
		return callers.ServeProbes(ctx, m.onM, scrapes.Mux(m.cfg.Metrics, func() string { return "" }))
	})
	return all.Wait()
}

// serve serves the API. Requests that are under way at the end are completed: an output that was
// sent is stored or refused, and its pod gets the response.
func (m *Main) serve(ctx context.Context) error {
	server := &http.Server{
		Handler: m.handler(), ReadHeaderTimeout: readHead, ReadTimeout: readWithin, WriteTimeout: writeWithin, IdleTimeout: idleWithin,
		MaxHeaderBytes: maxHead,
		// Errors of client connections are not errors of the server.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	// Only HTTP/1.1: a pod sends one request at a time.
	return callers.Serve(ctx, server, tls.NewListener(m.onAPI, m.cfg.TLS.Server()), stopWithin)
}

// Close closes the listeners of a Main that is not run.
func (m *Main) Close() error { return callers.Close(m.onAPI, m.onM) }

// Name is the host name of the server for units' pods, which its certificate must be for.
const Name = "io-context-server.signadot.svc"

// Config configures a Main.
type Config struct {
	// Store stores the values; its client reads SignadotObjectLifecycleMethods too. Required.
	Store store.Store
	// Tokens verifies tokens of audience iocontext.Audience. Required.
	Tokens *tokens.Verifier
	// TLS is the certificate to serve with. Required.
	TLS *trust.Folder
	// Addresses to listen on, as host:port. Defaults: :8443, and :9090 for metrics and health.
	Address, MetricsAddress string
	// MaxConnections bounds the open connections of unauthenticated clients on each listener.
	// Default: 2048.
	MaxConnections int
	// Penalty is the delay for an address that was refused more than 20 times in a row, and more
	// than five times a second. Default: a second.
	Penalty time.Duration
	// Logger logs by name which values were sent, kept and refused. Default: none.
	Logger *slog.Logger
	// Metrics is the registry. Default: a new one.
	Metrics *prometheus.Registry
}

// Validate returns an error when a field of a Config is missing or out of range.
func (c Config) Validate() error {
	switch {
	case c.Store.Client == nil || c.Store.Namespace == "":
		return errors.New("IO context server: Config.Store is missing")
	case c.Tokens == nil:
		return errors.New("IO context server: Config.Tokens is missing: tokens could not be verified")
	case c.TLS == nil:
		return errors.New("IO context server: Config.TLS is missing: values are never sent plain")
	case c.MaxConnections < 0:
		return errors.New("IO context server: Config.MaxConnections must not be negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Address = cmp.Or(c.Address, ":8443")
	c.MetricsAddress = cmp.Or(c.MetricsAddress, ":9090")
	c.MaxConnections = cmp.Or(c.MaxConnections, 2048)
	c.Penalty = cmp.Or(c.Penalty, time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Metrics = cmp.Or(c.Metrics, prometheus.NewRegistry())
	return c
}

// Settings are the values that the program takes from flags.
type Settings struct {
	// Address and MetricsAddress are as in Config.
	Address, MetricsAddress string
	// Namespace is the operator's, and ValuesNamespace has the values.
	Namespace, ValuesNamespace string
	// TLSDir is the folder with the certificate.
	TLSDir string
	// LogLevel is the least important level that is logged.
	LogLevel slog.Level
}

// ParseSettings parses the program's arguments, without its name. Usage goes to help. The error
// is flag.ErrHelp when the arguments request help.
func ParseSettings(args []string, help io.Writer) (Settings, error) {
	var s Settings
	flags := flag.NewFlagSet("io-context-server", flag.ContinueOnError)
	flags.StringVar(&s.Address, "address", ":8443", "address of the API, over TLS")
	flags.StringVar(&s.MetricsAddress, "metrics-address", ":9090", "address of /metrics, /healthz and /readyz")
	flags.StringVar(&s.Namespace, "namespace", "signadot", "namespace of the operator")
	flags.StringVar(&s.ValuesNamespace, "values-namespace", "signadot-values", "namespace of the Secrets with values")
	flags.StringVar(&s.TLSDir, "tls-dir", "/var/run/secrets/tls", "directory with tls.crt, tls.key and ca.crt; it is read again when it changes")
	flags.TextVar(&s.LogLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	if err := program.Parse(flags, args, help); err != nil {
		return Settings{}, err
	}
	return s, nil
}
