package serve

import (
	"cmp"
	"errors"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/xds/delta"
	"switchyard.dev/xds/translate"
)

// Config is what a Server needs.
type Config struct {
	// Sessions lets peers in. Required.
	Sessions Sessions
	// Trust is the trust bundle for clients that ask for one. Default: none is sent.
	Trust Bundles
	// Types are the type URLs that are served, in the order in which they are
	// sent. Default: translate.RouteType and translate.PartType.
	Types []string
	// StreamsPerPeer is how many streams one identity may have. Default 4.
	StreamsPerPeer int
	// OpensPerPeer is how many streams one identity can open in a row; after that one every
	// OpenEvery. It bounds the cost of a client that keeps reconnecting to receive routes that
	// it refuses. Defaults 20 and 2 s.
	OpensPerPeer int
	OpenEvery    time.Duration
	// NamesPerPeer and BytesPerPeer bound what all streams of one identity make the
	// server hold. Defaults 20,000 names and 8 MiB.
	NamesPerPeer, BytesPerPeer int
	// Pace is the least time between two responses to changes on one stream: changes within it
	// are sent together. The first change is sent at once. Default 20 ms.
	Pace time.Duration
	// Writers is how many responses are made and written at one time; the streams
	// take turns. Default: 4 for each CPU.
	Writers int
	// FirstRequest is how long a client may take to send its first request.
	// Default 5 s.
	FirstRequest time.Duration
	// Write is how long a response may take to be written. Default 10 s.
	Write time.Duration
	// Logger logs refused clients and refused resources. Default: none.
	Logger *slog.Logger
	// Metrics gets the collectors of the server. Default: none.
	Metrics prometheus.Registerer
}

// Validate returns an error if the Config is not valid.
func (c Config) Validate() error {
	switch {
	case c.Sessions == nil:
		return errors.New("xds: Config.Sessions is missing; it authorizes the clients")
	case min(c.StreamsPerPeer, c.OpensPerPeer, c.NamesPerPeer, c.BytesPerPeer, c.Writers) < 0,
		min(c.OpenEvery, c.Pace, c.FirstRequest, c.Write) < 0:
		return errors.New("xds: limits must not be negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	if len(c.Types) == 0 {
		c.Types = []string{translate.RouteType, translate.PartType}
	}
	c.StreamsPerPeer = cmp.Or(c.StreamsPerPeer, 4)
	c.OpensPerPeer = cmp.Or(c.OpensPerPeer, 20)
	c.OpenEvery = cmp.Or(c.OpenEvery, 2*time.Second)
	c.NamesPerPeer = cmp.Or(c.NamesPerPeer, 2*delta.MaxNames)
	c.BytesPerPeer = cmp.Or(c.BytesPerPeer, 8<<20)
	c.Pace = cmp.Or(c.Pace, 20*time.Millisecond)
	c.Writers = cmp.Or(c.Writers, 4*runtime.GOMAXPROCS(0))
	c.FirstRequest = cmp.Or(c.FirstRequest, 5*time.Second)
	c.Write = cmp.Or(c.Write, 10*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}
