package keeper

import (
	"log/slog"
	"sync"
	"time"
)

// news says in the log that routes come: the first time, and again after the
// route server was away, but not for each change.
type news struct {
	mu sync.Mutex
	// ever is whether routes were received at all, and told whether that was said
	// since the route server was away.
	ever, told bool
}

// away takes note that the stream to the route server ended.
func (n *news) away() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = false
}

// received takes note of routes that Envoy accepted.
func (n *news) received(logger *slog.Logger, version string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.told {
		logger.Info("routes received", "version", version)
	}
	n.ever, n.told = true, true
}

// reached takes note that a stream has begun. A route server that is back sends
// nothing when the sidecar has the newest routes, so a stream that has lasted for
// a while is what tells that it is back. The function has gives the version in
// use. Call what it returns when the stream ends.
func (n *news) reached(logger *slog.Logger, has func() string, lasted time.Duration) (end func()) {
	ended := false
	timer := time.AfterFunc(lasted, func() {
		version := has()
		n.mu.Lock()
		defer n.mu.Unlock()
		// Without routes from it so far there is nothing yet to tell of.
		if ended || n.told || !n.ever {
			return
		}
		logger.Info("the route server is back and has sent no other routes", "version", version)
		n.told = true
	})
	return func() {
		timer.Stop()
		n.mu.Lock()
		defer n.mu.Unlock()
		ended = true
	}
}
