package workstation

import (
	"context"
	"time"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
)

const (
	// renewEvery is how often a session reads the user's token again, and renewWithin how long
	// that may take.
	renewEvery, renewWithin = 30 * time.Second, 20 * time.Second
)

// renew sends the proxy each newer token of the user, so that the session outlives the token that it
// began with, until the session ends.
func (l *loop) renew(s *carrier.Session) {
	l.mu.Lock()
	last := l.shown
	l.mu.Unlock()
	ticker := time.NewTicker(l.cfg.RenewEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.Done():
			return
		}
		ctx, cancel := context.WithTimeout(l.Context, renewWithin)
		token, err := l.cfg.Token(ctx, false)
		cancel()
		if err != nil {
			l.cfg.Log.Info("the token could not be read again; the session continues until the present one expires", "error", err)
			continue
		}
		if token == last {
			continue
		}
		if s.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Renew{Renew: &tunnelv1.Renew{Token: token}}}) != nil {
			return
		}
		last = token
	}
}
