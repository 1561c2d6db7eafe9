package sshd

import (
	"context"
	"fmt"
	"time"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/inbound"
)

// revoked returns why the session has to end: its user was deleted, or may neither use the
// proxies nor hold a tunnel any more. It is empty otherwise, and when the API server does not
// answer.
func (c *client) revoked(ctx context.Context) string {
	if refused := c.server.cfg.Access.Exists(ctx, c.user); refused != nil && refused.Reason != tunnelv1.Reason_REASON_UNAVAILABLE {
		return refused.Message
	}
	refused := c.server.cfg.Access.MayUse(ctx, c.user)
	if refused == nil || refused.Reason == tunnelv1.Reason_REASON_UNAVAILABLE {
		return ""
	}
	if c.holder.Holds(inbound.Key{}) {
		return ""
	}
	return refused.Message
}

// last ends a session when it has no channel, some time after its certificate expired.
func (c *client) last(ctx context.Context) {
	for every := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			every.Stop()
			return
		case <-every.C:
		}
		if err := c.aged(); err != nil && (c.channels.Load() == 0 || !c.server.cfg.Clock().Before(c.until.Add(opens+closes))) {
			c.end(err.Error())
		}
	}
}

// aged returns why the session opens no more channels; nil: it still does.
func (c *client) aged() error {
	if c.server.cfg.Clock().Before(c.until.Add(opens)) {
		return nil
	}
	return fmt.Errorf("the certificate of the session expired at %s, more than %s ago: get a new one with `switchyard tunnel ssh-cert` and connect again", c.until.UTC().Format(time.RFC3339), opens)
}

// end ends the session.
func (c *client) end(why string) {
	c.server.cfg.Logger.Info("an SSH session is ended", "user", c.user.Name, "from", c.from, "session", c.owner.Session, "message", why)
	_ = c.conn.Close()
}
