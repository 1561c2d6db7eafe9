package keeper

import (
	"log/slog"
	"sync"
	"time"
)

// news logs that routes were received: the first time, and again after the route server was
// unavailable, but not for each change.
type news struct {
	mu sync.Mutex
	// ever is whether routes were received at all, and logged whether that was logged since the
	// route server was unavailable.
	ever, logged bool
}

// away takes note that the stream to the route server ended.
func (n *news) away() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.logged = false
}

// received takes note of routes that Envoy accepted.
func (n *news) received(logger *slog.Logger, version string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.logged {
		logger.Info("routes received", "version", version)
	}
	n.ever, n.logged = true, true
}

// reached records that a stream has begun. A route server that is back sends nothing when the
// sidecar has the newest routes, so a stream that has lasted for a while shows that it is back.
// has returns the version in use. Call end when the stream ends.
func (n *news) reached(logger *slog.Logger, has func() string, lasted time.Duration) (end func()) {
	ended := false
	timer := time.AfterFunc(lasted, func() {
		version := has()
		n.mu.Lock()
		defer n.mu.Unlock()
		// Without routes from it so far there is nothing to log.
		if ended || n.logged || !n.ever {
			return
		}
		logger.Info("the route server is back and has sent no other routes", "version", version)
		n.logged = true
	})
	return func() {
		timer.Stop()
		n.mu.Lock()
		defer n.mu.Unlock()
		ended = true
	}
}
