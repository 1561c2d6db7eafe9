// Package embedded is the server of the routing log: a NATS server with
// JetStream, inside our own process.
//
// It opens one port at most, the one that is asked for; without one it is
// reached from inside the process only. No monitoring, cluster, gateway, leaf
// node, websocket or MQTT listener is ever opened. Every write is on disk before
// it is acknowledged (SyncAlways): with the server's own defaults a power cut
// loses everything that was acknowledged in the last two minutes, or the whole
// stream if it is younger.
//
// Over the port each client presents a token, and what it may do follows from
// the role that Authenticate gives it. A client whose token cannot be checked is
// refused; it tries again by itself, and connections that are already open live
// on. All deadlines and limits are set here, see options.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"switchyard.dev/eventbus/connect"
)

// Config says where the server keeps its files and who may reach it.
type Config struct {
	// StoreDir is the directory of the log. It is made when it is missing.
	StoreDir string
	// Listen is the address to listen on for clients, like ":4222"; port 0 takes
	// a free one. Empty: no listener, only Conn reaches the server.
	Listen string
	// Authenticate tells the role of a client by its token; an error refuses it,
	// and is logged. It is called for each new connection and has AuthTimeout to
	// answer. Needed when Listen is set.
	Authenticate func(ctx context.Context, token string) (connect.Role, error)
	// Unsynced acknowledges writes before they are on disk. Only for measuring
	// what syncing costs, and for showing what is lost without it.
	Unsynced bool
	// MaxStore bounds what is kept on disk, in bytes; 1 GiB when it is 0.
	MaxStore int64
	// MaxConnections bounds the clients; 256 when it is 0.
	MaxConnections int
	// Logger takes what the server says; slog.Default() when it is nil.
	Logger *slog.Logger
}

// Deadlines of the server.
const (
	// AuthTimeout is how long a new connection has to present its token and to
	// have it checked.
	AuthTimeout = 5 * time.Second
	// pingInterval and pingsOut end a connection that does not answer within
	// about six seconds, such as one whose other end lost power.
	pingInterval = 2 * time.Second
	pingsOut     = 2
	// writeDeadline ends a connection that does not take what it asked for.
	writeDeadline = 5 * time.Second
	// startTimeout is how long the server has to read its store and begin.
	startTimeout = 60 * time.Second
)

// Validate says what is wrong with the configuration, if anything.
func (c Config) Validate() error {
	if c.StoreDir == "" {
		return errors.New("event bus: StoreDir is missing; name the directory for the log")
	}
	if c.MaxStore < 0 || c.MaxConnections < 0 {
		return fmt.Errorf("event bus: MaxStore %d and MaxConnections %d must not be negative", c.MaxStore, c.MaxConnections)
	}
	if c.Listen == "" {
		return nil
	}
	if c.Authenticate == nil {
		return fmt.Errorf("event bus: Listen is %q but Authenticate is missing; a bus with a port must know its clients", c.Listen)
	}
	_, _, err := c.address()
	return err
}

// address splits Listen into what the server wants: -1 for a free port.
func (c Config) address() (string, int, error) {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", 0, fmt.Errorf("event bus: Listen: %w", err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("event bus: Listen is %q: the port must be a number from 0 to 65535", c.Listen)
	}
	if n == 0 {
		return host, -1, nil
	}
	return host, int(n), nil
}

func (c Config) withDefaults() Config {
	if c.MaxStore == 0 {
		c.MaxStore = 1 << 30
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = 256
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
