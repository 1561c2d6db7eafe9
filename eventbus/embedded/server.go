package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/jetstream"
)

// Server is a running server.
type Server struct {
	config Config
	nats   *server.Server
	// secret is the token by which connections from inside the process are known.
	secret string
	// store is the directory of the streams, as it was at the start.
	store os.FileInfo
}

// Start starts the server and waits until it has read its store. Close ends it.
func Start(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if err := os.MkdirAll(c.StoreDir, 0o700); err != nil {
		return nil, fmt.Errorf("event bus: make the store directory: %w", err)
	}
	s := &Server{config: c, secret: rand.Text()}
	auth := &authenticator{config: c, secret: s.secret}
	options, err := s.options(auth)
	if err != nil {
		return nil, err
	}
	if s.nats, err = server.NewServer(options); err != nil {
		return nil, fmt.Errorf("event bus: %w", err)
	}
	auth.nats = s.nats
	logger := &logger{to: c.Logger, fatal: make(chan string, 1)}
	s.nats.SetLoggerV2(logger, false, false, false)
	s.nats.Start()
	if err := s.awaitStart(logger.fatal); err != nil {
		s.Close()
		return nil, fmt.Errorf("event bus: the server did not start on %s: %w", c.StoreDir, err)
	}
	if s.store, err = os.Stat(s.storeDir()); err != nil {
		s.Close()
		return nil, fmt.Errorf("event bus: %w", err)
	}
	return s, nil
}

// awaitStart waits until the server has read its store and takes connections,
// or has said why it cannot.
func (s *Server) awaitStart(fatal <-chan string) error {
	ready := make(chan bool, 1)
	go func() { ready <- s.nats.ReadyForConnections(startTimeout) && s.nats.JetStreamEnabled() }()
	select {
	case why := <-fatal:
		return errors.New(why)
	case ok := <-ready:
		if !ok {
			return fmt.Errorf("it was not ready within %s", startTimeout)
		}
		return nil
	}
}

// options is the whole configuration of the server. What is not set here is off
// or has no effect.
func (s *Server) options(auth *authenticator) (*server.Options, error) {
	c := s.config
	o := &server.Options{
		ServerName:             "switchyard-eventbus",
		DontListen:             c.Listen == "",
		JetStream:              true,
		StoreDir:               c.StoreDir,
		SyncAlways:             !c.Unsynced,
		JetStreamMaxStore:      c.MaxStore,
		JetStreamMaxMemory:     64 << 20, // the state of followers' consumers; facts are on disk
		DisableJetStreamBanner: true,
		// We log through our own logger and handle our own signals.
		NoLog:  true,
		NoSigs: true,

		AuthTimeout:  AuthTimeout.Seconds(),
		PingInterval: pingInterval, MaxPingsOut: pingsOut,
		WriteDeadline: writeDeadline,
		MaxConn:       c.MaxConnections,
		MaxSubs:       256,
		// An event, and some room for what a request carries beside it.
		MaxPayload: eventbus.MaxEvent + 16<<10,
		MaxPending: 64 << 20,

		CustomClientAuthentication: auth,
	}
	if err := o.ProcessConfigString(accounts()); err != nil {
		return nil, fmt.Errorf("event bus: accounts: %w", err)
	}
	if c.Listen != "" {
		host, port, err := c.address()
		if err != nil {
			return nil, err
		}
		o.Host, o.Port = host, port
	}
	return o, nil
}

// Addr is the address that the server listens on; nil when it does not.
func (s *Server) Addr() net.Addr {
	if s.config.Listen == "" {
		return nil
	}
	return s.nats.Addr()
}

// Conn gives a connection from inside the process, with the rights of a writer
// and followers both. The caller closes it.
func (s *Server) Conn(ctx context.Context) (*nats.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	conn, err := nats.Connect("", nats.InProcessServer(s.nats), nats.Name("in-process"), nats.Token(s.secret),
		nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		return nil, fmt.Errorf("event bus: connect from inside the process: %w", err)
	}
	return conn, nil
}

// ErrStoreGone says that the files of the log were removed under the running
// server. It does not notice by itself and goes on into files that nobody will
// find again: close it and start another.
var ErrStoreGone = errors.New("event bus: the store directory was removed or replaced")

// Ready says why the server cannot serve, nil when it can. It touches no file's
// content, so a slow disk does not hold it up.
func (s *Server) Ready() error {
	switch {
	case !s.nats.Running():
		return errors.New("event bus: the server is not running")
	case !s.nats.JetStreamEnabled():
		return errors.New("event bus: JetStream has been switched off; see the log for the disk error before this")
	}
	if now, err := os.Stat(s.storeDir()); err != nil || !os.SameFile(now, s.store) {
		return fmt.Errorf("%w: %s", ErrStoreGone, s.storeDir())
	}
	return nil
}

// storeDir is where the server keeps its streams.
func (s *Server) storeDir() string { return filepath.Join(s.config.StoreDir, "jetstream") }

// Stats counts what the server holds and who is connected.
type Stats struct {
	// Events and Bytes are what is kept on disk, over all streams.
	Events, Bytes uint64
	// LastSeq is the sequence of the log's last event; 0 when there is no log.
	LastSeq uint64
	// MaxBytes is the bound of Bytes.
	MaxBytes uint64
	// Connections counts the clients.
	Connections int
	// Synced says whether every write is on disk before it is acknowledged.
	Synced bool
}

// Stats reads the counts of this moment.
func (s *Server) Stats() (Stats, error) {
	info, err := s.nats.Jsz(&server.JSzOptions{Account: factsAccount, Streams: true})
	if err != nil {
		return Stats{}, fmt.Errorf("event bus: %w", err)
	}
	stats := Stats{
		Events: info.Messages, Bytes: info.Bytes, MaxBytes: uint64(info.Config.MaxStore),
		Connections: s.nats.NumClients(), Synced: info.Config.SyncAlways,
	}
	for _, account := range info.AccountDetails {
		for _, stream := range account.Streams {
			if stream.Name == jetstream.StreamName {
				stats.LastSeq = stream.State.LastSeq
			}
		}
	}
	return stats, nil
}

// Close ends the server and waits until its files are closed.
func (s *Server) Close() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}
