package server

import (
	"context"
	"time"

	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tunnels/credential/signed"
)

// Keys are the public keys that clusters check credentials of users with (controlplane-link/issuer).
type Keys interface {
	// Public returns the keys, and a channel that is closed when they change.
	Public() (signed.Keys, <-chan struct{})
}

const (
	// keysEvery is how often the keys are sent, for a cluster that has lost them; keysAfter is when
	// after a failure, and keysWithin bounds each attempt.
	keysEvery, keysAfter, keysWithin = time.Minute, 5 * time.Second, 10 * time.Second
)

// publish keeps the public keys in an agent's cluster until its session ends.
func (s *Server) publish(ctx context.Context, a *Agent) {
	last := ""
	for {
		keys, changed := s.cfg.Keys.Public()
		wait, text := keysEvery, ""
		if err := a.setKeys(ctx, keys); err != nil {
			wait, text = keysAfter, err.Error()
		}
		if text != "" && text != last && a.session.Err() == nil {
			s.cfg.Logger.Warn("the cluster does not have the public keys, so it may refuse credentials, or accept those of a removed key", "cluster", a.Cluster.Name, "error", text)
		}
		last = text
		select {
		case <-changed:
		case <-time.After(wait):
		case <-a.Done(): // also at the end of ctx
			return
		}
	}
}

// setKeys replaces the keys in the agent's cluster.
func (a *Agent) setKeys(ctx context.Context, keys signed.Keys) error {
	ctx, cancel := context.WithTimeout(ctx, keysWithin)
	defer cancel()
	c, err := a.session.Open(ctx, &linkv1.Open{To: &linkv1.Open_Keys{Keys: &linkv1.Keys{KeySet: keys.String()}}})
	if err != nil {
		return err
	}
	return c.Close()
}
