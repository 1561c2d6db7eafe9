package view

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus"
)

// Config is what a View needs.
type Config struct {
	// Log is the log to follow. Required.
	Log eventbus.Reader
	// Logger is told when the log is lost and found again. Default: none.
	Logger *slog.Logger
	// Metrics gets the collectors of the view. Default: none.
	Metrics prometheus.Registerer
	// RetryMin and RetryMax bound the wait before the log is followed again. It
	// doubles from one to the other, and half of it is random. Default: 50 ms
	// and 2 s.
	RetryMin, RetryMax time.Duration
}

// Validate tells what is wrong with a Config, or nil.
func (c Config) Validate() error {
	switch {
	case c.Log == nil:
		return errors.New("view: Config.Log is missing: say which log to follow")
	case c.RetryMin < 0 || c.RetryMax < c.RetryMin:
		return errors.New("view: Config.RetryMin must not be negative nor exceed RetryMax")
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.RetryMin == 0 {
		c.RetryMin = 50 * time.Millisecond
	}
	if c.RetryMax == 0 {
		c.RetryMax = max(2*time.Second, c.RetryMin)
	}
	return c
}
