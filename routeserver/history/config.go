package history

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/projection"
)

// Config is what a History needs.
type Config struct {
	// Log is the log to read. Required.
	Log eventbus.Reader
	// Past is the same log, used on request: to rebuild versions, and to read ranges and single
	// keys. It can limit concurrent reads (package eventbus/readers). Default: Log.
	Past eventbus.Reader
	// Checkpoints is how many tables are kept ready, to begin rebuilding at.
	// Default 32.
	Checkpoints int
	// CheckpointRules is how many rules all of these tables may have together, so
	// that large tables are kept less often: two that lie thousands of events apart
	// share little. About 400 bytes each. Default 500,000.
	CheckpointRules int
	// Every is the least number of events between two checkpoints. Default 256.
	Every int
	// Rebuilds is how many versions are rebuilt at the same time; more wait.
	// Default 2.
	Rebuilds int
	// Recent is the number of rebuilt versions that are cached for later requests, such as the
	// pages of a table. Default 8.
	Recent int
	// Patience is the timeout for reading the log up to a requested version. Default 30 s.
	Patience time.Duration
	// Retry bounds the wait before the log is read again. Default: 100 ms and 5 s.
	Retry projection.Retry
	// Logger records failures to read the log. Default: no logging.
	Logger *slog.Logger
}

// Validate returns an error that describes the first invalid field of a Config, or nil.
func (c Config) Validate() error {
	switch {
	case c.Log == nil:
		return errors.New("history: Config.Log is missing: set the log to read")
	case c.Checkpoints < 0 || c.CheckpointRules < 0 || c.Every < 0 || c.Rebuilds < 0 || c.Recent < 0 || c.Patience < 0:
		return errors.New("history: numbers in Config must not be negative")
	}
	return c.Retry.Validate()
}

func (c Config) withDefaults() Config {
	c.Past = cmp.Or(c.Past, c.Log)
	c.Checkpoints = cmp.Or(c.Checkpoints, 32)
	c.CheckpointRules = cmp.Or(c.CheckpointRules, 500_000)
	c.Every = cmp.Or(c.Every, 256)
	c.Rebuilds = cmp.Or(c.Rebuilds, 2)
	c.Recent = cmp.Or(c.Recent, 8)
	c.Patience = cmp.Or(c.Patience, 30*time.Second)
	c.Retry = c.Retry.Or(100*time.Millisecond, 5*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}
