package view

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/projection"
)

// Config is what a View needs.
type Config struct {
	// Log is the log to follow. Required.
	Log eventbus.Reader
	// Logger records when the log becomes unreachable and when it recovers. Default: no logging.
	Logger *slog.Logger
	// Metrics gets the collectors of the view. Default: none.
	Metrics prometheus.Registerer
	// Retry bounds the wait before the log is followed again. Default: 50 ms and 2 s.
	Retry projection.Retry
}

// Validate returns an error that describes the first invalid field of a Config, or nil.
func (c Config) Validate() error {
	if c.Log == nil {
		return errors.New("view: Config.Log is missing: set the log to follow")
	}
	return c.Retry.Validate()
}

func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Retry = c.Retry.Or(50*time.Millisecond, 2*time.Second)
	return c
}
