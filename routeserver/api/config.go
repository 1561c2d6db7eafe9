package api

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus"
	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/routeserver/api/versions"
	"switchyard.dev/routeserver/history"
)

// Config is what a Server needs.
type Config struct {
	// Tables is the newest table. Required.
	Tables versions.Tables
	// Log is the log that the table follows. Required.
	Log eventbus.Reader
	// History provides older versions, of the same log and tables. Required.
	History *history.History
	// Sidecars are those connected here. Without it this route server serves no
	// xDS, and has none.
	Sidecars receipts.Sidecars
	// Peers are the other route servers. Without it there are none.
	Peers receipts.Peers
	// Keys takes the routing key out of a request, for Explain. Without it Explain
	// takes keys only, not headers.
	Keys Keys
	// Services lists the Services of the cluster, with which Explain resolves a cluster IP. Without
	// it a destination must be a name.
	Services Services
	// Name is the name of this route server in reports about sidecars, usually its pod name.
	// Default: routeserver.
	Name string
	// Logger records errors of this server. Default: no logging.
	Logger *slog.Logger
	// Metrics gets the collectors of the API. Default: none.
	Metrics prometheus.Registerer

	// CallWithin is the timeout of each unary call except Wait, which has a timeout in its request.
	// Default: 30 s.
	CallWithin time.Duration
	// WriteWithin is how long the client of a stream may take nothing. Default:
	// 1 min.
	WriteWithin time.Duration
	// WatchNews is the interval at which a watch without changes sends the newest position.
	// Default: 1 min.
	WatchNews time.Duration
	// MaxCalls, MaxStreams and MaxWaits bound how many calls that answer once,
	// streams (Watch and ReadLog) and Waits there are at a time, of all strangers, as
	// many again of all pods that show a token, and as many of our own programs
	// (callers.From); one stranger or pod has a part of that. More are
	// RESOURCE_EXHAUSTED. Default: 256, 4096 and 128.
	MaxCalls, MaxStreams, MaxWaits int
}

// Validate returns an error that describes the first invalid field of a Config, or nil.
func (c Config) Validate() error {
	switch {
	case c.Tables == nil || c.Log == nil || c.History == nil:
		return errors.New("api: Config needs Tables, Log and History")
	case c.CallWithin < 0 || c.WriteWithin < 0 || c.WatchNews < 0:
		return errors.New("api: durations in Config must not be negative")
	case c.MaxCalls < 0 || c.MaxStreams < 0 || c.MaxWaits < 0:
		return fmt.Errorf("api: limits must not be negative: MaxCalls %d, MaxStreams %d, MaxWaits %d", c.MaxCalls, c.MaxStreams, c.MaxWaits)
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "routeserver")
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.CallWithin = cmp.Or(c.CallWithin, 30*time.Second)
	c.WriteWithin = cmp.Or(c.WriteWithin, time.Minute)
	c.WatchNews = cmp.Or(c.WatchNews, time.Minute)
	c.MaxCalls = cmp.Or(c.MaxCalls, 256)
	c.MaxStreams = cmp.Or(c.MaxStreams, 4096)
	c.MaxWaits = cmp.Or(c.MaxWaits, 128)
	return c
}
