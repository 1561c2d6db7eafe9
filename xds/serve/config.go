package serve

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/xds/translate"
)

// Config is what a Server needs.
type Config struct {
	// Sessions lets peers in. Required.
	Sessions Sessions
	// Types are the type URLs that are served, in the order in which they are
	// sent. Default: translate.RouteType.
	Types []string
	// StreamsPerPeer is how many streams one identity may have. Default 4.
	StreamsPerPeer int
	// FirstRequest is how long a client may take to send its first request.
	// Default 5 s.
	FirstRequest time.Duration
	// Write is how long a response may take to be written. Default 10 s.
	Write time.Duration
	// Logger is told of refused clients and refused resources. Default: none.
	Logger *slog.Logger
	// Metrics gets the collectors of the server. Default: none.
	Metrics prometheus.Registerer
}

// Validate tells what is wrong with a Config, or nil.
func (c Config) Validate() error {
	switch {
	case c.Sessions == nil:
		return errors.New("xds: Config.Sessions is missing: say who may have what")
	case c.StreamsPerPeer < 0 || c.FirstRequest < 0 || c.Write < 0:
		return errors.New("xds: limits must not be negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	if len(c.Types) == 0 {
		c.Types = []string{translate.RouteType}
	}
	if c.StreamsPerPeer == 0 {
		c.StreamsPerPeer = 4
	}
	if c.FirstRequest == 0 {
		c.FirstRequest = 5 * time.Second
	}
	if c.Write == 0 {
		c.Write = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
