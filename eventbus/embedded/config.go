// Package embedded is the server of the routing log: a NATS server with JetStream, inside the
// operator's own process.
//
// It opens one port at most, the configured one, and one more on the loopback device, to which
// clients.Front forwards clients; without a port it is reached from inside the process only. No
// monitoring, cluster, gateway, leaf node, websocket or MQTT listener is ever opened. Every
// write is on disk before it is acknowledged (SyncAlways): with the server's own defaults a
// power failure loses everything that was acknowledged in the last two minutes, or the whole
// stream if it is younger.
//
// # Verification of the store
//
// JetStream by itself does not distinguish a log from a damaged one: after one flipped bit it
// drops the rest of the log and continues numbering from there. So the server trusts no store:
//
//   - Next to the store it keeps a witness: the epoch, the sequence and the checksum of the
//     newest event that is on disk, at most about 100 ms behind while events arrive, and exact
//     once the server was closed.
//   - Before it admits clients it reads the whole log, from the disk and not from the kernel's
//     cache, verifies the chain of checksums, and compares it with the witness. A log that was
//     truncated at its beginning while it forgot events is whole where it counts.
//   - A store that does not verify, is missing, ends early or cannot be read is moved aside,
//     into damaged-<time> next to it, and replaced by an empty one; this is logged and counted
//     (Stats). A damaged store is never continued. The writer of the log begins a new epoch and
//     publishes all facts again.
//   - An opening that never ends, because the NATS server panics or loops on the files, is
//     detected by a file at the next start. After two panics, or one endless loop, the store is
//     moved aside unread.
//
// When the disk is full, read-only or failing, or the files are removed, the server reports
// that in Ready, closes the store, and opens it again, with all of the above, as soon as the
// disk accepts and keeps files. After a failed sync it never takes a later sync as proof that
// the data is on disk. Clients are disconnected in the meantime and reconnect to the same
// address; so do connections that Conn returned.
//
// The witness does not cover one case: when power fails and the very last events, of less than
// 100 ms, are damaged as well. For these there are the marks that the writer keeps (Log.Begin).
//
// # Permissions
//
// Followers cannot take all the consumers of the stream: a part is reserved for writers
// (clients.Guard).
//
// Over the port, which speaks TLS with clients that want it (Config.TLS), each client presents
// a token. Its permissions follow from the role that Authenticate returns
// (clients.Authenticator). A client is refused if its token cannot be checked; it retries by
// itself, and connections that are already open continue. All deadlines and limits of the
// server are set here, see options.
//
// Package store manages the files, and package clients the connections.
package embedded

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/wake"
)

// Config has the server's files, its listener and its clients.
type Config struct {
	// StoreDir is the directory of the log. It is made when it is missing.
	StoreDir string
	// Listen is the address to listen on for clients, like ":4222"; port 0 takes
	// a free one. Empty: no listener, only Conn reaches the server.
	Listen string
	// Authenticate returns the role of a client by its token; an error refuses it, and is
	// logged. The context carries the caller (callers.From). It is called for each new
	// connection and has clients.AuthTimeout to answer. Needed when Listen is set.
	Authenticate func(ctx context.Context, token string) (connect.Role, error)
	// TLS, if not nil, is how the listener speaks it: with each client that wants to. The
	// greeting goes before it, as the protocol has it, and holds nothing that is secret.
	TLS *tls.Config
	// RequireTLS turns clients away that do not want to.
	RequireTLS bool
	// Unsynced acknowledges writes before they are on disk. Only for measuring the cost of
	// syncing, and for showing the losses without it.
	Unsynced bool
	// MaxStore bounds the files on disk, in bytes; 1 GiB when it is 0. It is never more than 70
	// per cent of the volume.
	MaxStore int64
	// Records bounds the records of connections that tunnel proxies send. Default: none are kept.
	Records Records
	// MaxConnections bounds the connections of strangers, which have not presented a token yet,
	// and, separately, those of authenticated clients; 256 when it is 0.
	MaxConnections int
	// Logger receives the server's log; slog.Default() when it is nil.
	Logger *slog.Logger
}

// Deadlines of the server.
const (
	// tlsTimeout is how long a new connection has to choose TLS and complete the handshake; for
	// its token it has clients.AuthTimeout more.
	tlsTimeout = 4 * time.Second
	// pingInterval and pingsOut end a connection that does not answer within about six seconds,
	// such as one with a peer that lost power.
	pingInterval = 2 * time.Second
	pingsOut     = 2
	// writeDeadline ends a connection that does not read the data that it requested.
	writeDeadline = 5 * time.Second
	// startTimeout is how long the server has to read its store and begin. It
	// takes a second for some 100,000 events; over some damages it loops for ever.
	startTimeout = 2 * time.Minute
	// closeTimeout is how long it has to end.
	closeTimeout = 10 * time.Second
)

// The rhythm in which the store is kept.
const (
	// witnessPause is the time between two reads of the log's tip: the witness is not much
	// further behind.
	witnessPause = 75 * time.Millisecond
	// watchPause is the time between two checks of the server.
	watchPause = 100 * time.Millisecond
	// probePause is the least time between two probes of the disk, however often
	// the server complains.
	probePause = time.Second
	// healPause is the time between two attempts to open a store after its disk has failed.
	healPause = 250 * time.Millisecond
	// stall is how long an event may take to come before it is asked for, when
	// the log is verified. patience is how long the server may not answer at all:
	// long enough that no machine that is merely busy loses its log.
	stall    = 100 * time.Millisecond
	patience = 30 * time.Second
	// attempts is how often the store is opened before that is given up: as it
	// is, and empty.
	attempts = 2
	// settlePause is the time between two checks whether the last events have been recorded
	// when the server ends; settleTimeout bounds the wait.
	settlePause   = 5 * time.Millisecond
	settleTimeout = 2 * time.Second
	// maxListed bounds the clients that are disconnected when the server ends.
	maxListed = 4096
)

// Validate returns an error if the configuration is not valid.
func (c Config) Validate() error {
	if c.StoreDir == "" {
		return errors.New("event bus: StoreDir is missing; name the directory for the log")
	}
	if c.Records.Bytes < 0 || c.Records.Age < 0 {
		return fmt.Errorf("event bus: Records have %d bytes and age %s; neither may be negative", c.Records.Bytes, c.Records.Age)
	}
	if c.MaxStore < 0 || c.MaxConnections < 0 {
		return fmt.Errorf("event bus: MaxStore %d and MaxConnections %d must not be negative", c.MaxStore, c.MaxConnections)
	}
	if c.Listen == "" {
		return nil
	}
	if c.RequireTLS && c.TLS == nil {
		return errors.New("event bus: RequireTLS is set, and there is no certificate to speak it with")
	}
	if c.Authenticate == nil {
		return fmt.Errorf("event bus: Listen is %q but Authenticate is missing; a bus with a port must know its clients", c.Listen)
	}
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("event bus: Listen: %w", err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("event bus: Listen is %q: the port must be a number from 0 to 65535", c.Listen)
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.MaxStore = cmp.Or(c.MaxStore, 1<<30)
	c.MaxConnections = cmp.Or(c.MaxConnections, 256)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// logger passes the log of the NATS server to slog. The server formats its messages itself, so
// they are logged as a value next to a constant message.
type logger struct {
	to *slog.Logger
	// fatal takes the first reason why the server cannot go on.
	fatal chan string
	// alarm is sent to when the server has logged an error.
	alarm chan struct{}
	// shaking limits the log entries for failed handshakes, which any client of the port can
	// cause.
	shaking *rate.Limiter
}

func newLogger(to *slog.Logger) *logger {
	return &logger{to: to, fatal: make(chan string, 1), alarm: make(chan struct{}, 1),
		shaking: rate.NewLimiter(rate.Every(time.Second), 20)}
}

const msg = "NATS server"

// handshakeError is the prefix of the server's message about a failed TLS handshake.
const handshakeError = "TLS handshake error"

func (l *logger) Noticef(format string, v ...any) {
	l.to.Debug(msg, "text", fmt.Sprintf(format, v...))
}
func (l *logger) Warnf(format string, v ...any)  { l.to.Warn(msg, "text", fmt.Sprintf(format, v...)) }
func (l *logger) Debugf(format string, v ...any) { l.to.Debug(msg, "text", fmt.Sprintf(format, v...)) }
func (l *logger) Tracef(format string, v ...any) { l.to.Debug(msg, "text", fmt.Sprintf(format, v...)) }

// Errorf raises the alarm. The messages do not show which of them mean that the store has
// failed, so the receiver checks.
func (l *logger) Errorf(format string, v ...any) {
	if strings.Contains(format, handshakeError) { // A fault of the client, or of its trust bundle.
		if l.shaking.Allow() {
			l.Warnf(format, v...)
		}
		return
	}
	l.to.Error(msg, "text", fmt.Sprintf(format, v...))
	wake.Notify(l.alarm)
}

// Fatalf keeps why the server could not start. It does not end the process:
// Start returns the error, and a running server reports itself not ready.
func (l *logger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.to.Error(msg, "text", text)
	select {
	case l.fatal <- text:
	default:
	}
}
