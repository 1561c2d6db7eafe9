package database

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Watch calls changed after each change at any replica, until ctx ends, with "" if notifications may have
// been lost. It does not block, and changed must not.
func (d *DB) Watch(ctx context.Context, changed func(change string)) {
	key := &changed
	d.changes.watchers.Store(key, changed)
	context.AfterFunc(ctx, func() { d.changes.watchers.Delete(key) })
}

// channel is that of notifications in PostgreSQL.
const channel = "switchyard_controlplane"

const (
	checkAfter     = 10 * time.Second
	checkWithin    = 5 * time.Second
	reconnectAfter = time.Second
)

// changes notifies watchers.
type changes struct {
	watchers sync.Map // of func(string), by a pointer
	// remote: PostgreSQL notifies all replicas, this one too.
	remote bool
	// announced are the changes of Announce that are about to be sent.
	announced sync.Map
}

// announceAfter is the delay in which equal changes of Announce become one.
const announceAfter = 50 * time.Millisecond

// Announce notifies watchers at all replicas of a change that was observed, outside of a transaction: in PostgreSQL the
// transactions with a notification are committed one after the other. A notification that cannot be sent is lost.
func (d *DB) Announce(change string) {
	if !d.changes.remote {
		d.changes.notify(change)
	} else if _, waits := d.changes.announced.LoadOrStore(change, true); !waits {
		time.AfterFunc(announceAfter, func() {
			d.changes.announced.Delete(change) // before it is sent: a later one is sent again
			ctx, cancel := context.WithTimeout(context.Background(), checkWithin)
			defer cancel()
			_, _ = Exec(ctx, d.reads, notify, channel, change)
		})
	}
}

func (c *changes) notify(one string) {
	c.watchers.Range(func(_, do any) bool {
		do.(func(string))(one)
		return true
	})
}

// announce adds the notifications of a transaction to it.
func (c *changes) announce(ctx context.Context, t *Tx) error {
	if !c.remote {
		return nil
	}
	for _, one := range t.changes {
		if _, err := Exec(ctx, t, notify, channel, one); err != nil {
			return err
		}
	}
	return nil
}

// committed notifies the watchers of this process.
func (c *changes) committed(all []string) {
	if c.remote {
		return
	}
	for _, one := range all {
		c.notify(one)
	}
}

// listen receives the notifications of PostgreSQL until ctx ends.
func (c *changes) listen(ctx context.Context, config *pgx.ConnConfig, logger *slog.Logger) {
	for {
		err := c.receive(ctx, config)
		if ctx.Err() != nil {
			return
		}
		logger.Warn("notifications of PostgreSQL are interrupted", "error", err)
		select {
		case <-time.After(reconnectAfter):
		case <-ctx.Done():
			return
		}
	}
}

// receive connects, and receives until the connection fails.
func (c *changes) receive(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it may have failed
	if _, err := conn.Exec(ctx, listenTo+channel); err != nil {
		return err
	}
	c.notify("")
	for {
		waiting, cancel := context.WithTimeout(ctx, checkAfter)
		n, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil:
			c.notify(n.Payload)
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return err
		default:
			checking, cancel := context.WithTimeout(ctx, checkWithin)
			err := conn.Ping(checking)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}
