package server

import (
	"cmp"
	"errors"
	"flag"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/workflows/iocontext/store"
)

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
