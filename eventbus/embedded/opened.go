package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/embedded/clients"
	"switchyard.dev/eventbus/embedded/store"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/wake"
)

// opened is one NATS server on the open store. When the disk has failed it is closed
// permanently and another one is opened: a file that failed to sync must not be synced again,
// because the kernel may have dropped the data and would report success.
type opened struct {
	dir  store.Dir
	nats *server.Server
	auth *clients.Authenticator
	log  *logger
	// started is closed when the server has read its store, or has failed to.
	started chan struct{}
	// streams is the directory of the streams, as it was when it was opened.
	streams os.FileInfo
	// conn is a connection of our own, for reading.
	conn *nats.Conn
	js   natsjs.JetStream
	mine *jetstream.Log
	// front is where clients come in; nil without a listener.
	front *clients.Front
}

// errStuck means that a NATS server neither works nor ends. It keeps the files of the store
// open, so no other can open them in this process.
var errStuck = errors.New("event bus: the NATS server does not let go of its store; the process must be started again")

// run starts a NATS server on the store, without a listener.
func (s *Server) run(maxStore int64) (*opened, error) {
	auth := &clients.Authenticator{Authenticate: s.config.Authenticate, Secret: s.secret, RecordsSecret: s.recordsSecret, Front: s.front, Logger: s.config.Logger}
	options, err := s.options(auth, maxStore)
	if err != nil {
		return nil, err
	}
	o := &opened{dir: s.dir, auth: auth, front: s.front, log: newLogger(s.config.Logger), started: make(chan struct{})}
	if o.nats, err = server.NewServer(options); err != nil {
		return nil, fmt.Errorf("event bus: %w", err)
	}
	auth.Server = o.nats
	o.nats.SetLoggerV2(o.log, false, false, false)
	go func() {
		defer close(o.started)
		o.nats.Start()
	}()
	err = o.awaitStart()
	if err == nil {
		o.streams, err = os.Stat(o.dir.Streams())
	}
	if err == nil {
		err = o.connect(s.secret)
	}
	if err != nil {
		err = damaged(store.Unreadable, fmt.Errorf("the server did not start on %s: %w", o.dir, err))
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

// awaitStart waits until the server has read its store, or has reported why it cannot.
func (o *opened) awaitStart() error {
	ready := make(chan bool, 1)
	go func() { ready <- o.nats.ReadyForConnections(startTimeout) && o.nats.JetStreamEnabled() }()
	select {
	case why := <-o.log.fatal:
		return errors.New(why)
	case ok := <-ready:
		if !ok {
			return fmt.Errorf("it was not ready within %s", startTimeout)
		}
		return nil
	}
}

// connect makes our own connection. It waits as long as it takes and connects
// again by itself: on a machine that is very busy the server may take it for dead.
func (o *opened) connect(secret string) error {
	conn, err := nats.Connect("", nats.InProcessServer(o.nats), nats.Name("store keeper"), nats.Token(secret), nats.Timeout(patience),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		return err
	}
	o.conn = conn
	if o.js, err = natsjs.New(conn); err != nil {
		return err
	}
	if o.mine, err = jetstream.New(jetstream.Config{Conn: conn}); err != nil {
		return err
	}
	return clients.Guard(conn, o.js)
}

// options is the whole configuration of the server. Options that are not set here are off or
// have no effect.
func (s *Server) options(auth *clients.Authenticator, maxStore int64) (*server.Options, error) {
	o := &server.Options{
		ServerName: "switchyard-eventbus",
		// Whether there is a listener is decided once the store is verified.
		DontListen:             true,
		JetStream:              true,
		StoreDir:               s.config.StoreDir,
		SyncAlways:             !s.config.Unsynced,
		JetStreamMaxStore:      maxStore,
		JetStreamMaxMemory:     64 << 20, // the state of followers' consumers; facts are on disk
		DisableJetStreamBanner: true,
		// We log through our own logger and handle our own signals.
		NoLog:  true,
		NoSigs: true,

		AuthTimeout:  clients.AuthTimeout.Seconds(),
		PingInterval: pingInterval, MaxPingsOut: pingsOut,
		WriteDeadline: writeDeadline,
		// The front admits as many strangers, and as many authenticated clients; the rest are
		// internal.
		MaxConn: 2*s.config.MaxConnections + ownConnections,
		MaxSubs: 256,
		// An event, and some room for what a request carries beside it.
		MaxPayload: eventbus.MaxEvent + 16<<10,
		MaxPending: 64 << 20,

		CustomClientAuthentication: auth,
	}
	if s.config.TLS != nil {
		// A client that does not want TLS is distinguished by the first byte that it sends.
		o.TLSConfig, o.TLSTimeout, o.AllowNonTLS = s.config.TLS, tlsTimeout.Seconds(), !s.config.RequireTLS
	}
	o.Host, o.Port = "127.0.0.1", server.RANDOM_PORT // behind the front
	if err := o.ProcessConfigString(clients.Accounts()); err != nil {
		return nil, fmt.Errorf("event bus: accounts: %w", err)
	}
	return o, nil
}

// ownConnections are those from inside the process.
const ownConnections = 16

// serve lets clients in, if there is a listener.
func (o *opened) serve() error {
	if o.front == nil {
		return nil
	}
	listening := make(chan struct{})
	o.nats.AcceptLoop(listening)
	<-listening
	select {
	case why := <-o.log.fatal:
		return fmt.Errorf("event bus: %s", why)
	default:
	}
	if o.nats.Addr() == nil {
		return errors.New("event bus: the server was closed before it listened")
	}
	o.front.ForwardTo(o.nats.Addr().String())
	return nil
}

// check returns why the server cannot serve, nil when it can.
func (o *opened) check() error {
	if err := o.quick(); err != nil {
		return err
	}
	v, err := o.dir.Volume()
	if err != nil {
		return err
	}
	if v.ReadOnly {
		return fmt.Errorf("event bus: the volume of %s has become read-only", o.dir)
	}
	// A stream that is just being made or removed counts as unhealthy too, and is
	// not: only what could not be written matters.
	health := o.nats.Healthz(&server.HealthzOptions{Account: store.Account, Stream: jetstream.StreamName})
	if strings.Contains(health.Error, writeError) {
		return fmt.Errorf("event bus: %s", health.Error)
	}
	return nil
}

// writeError is the prefix of the server's message that a stream could not be written, and
// accepts no more data.
const writeError = "write error:"

// quick is as much of check as touches no lock that a slow disk holds.
func (o *opened) quick() error {
	switch {
	case !o.nats.Running():
		return errors.New("event bus: the server is not running")
	case !o.nats.JetStreamEnabled():
		return errors.New("event bus: JetStream has switched itself off; see the log for the disk error before this")
	}
	if now, err := os.Stat(o.dir.Streams()); err != nil || !os.SameFile(now, o.streams) {
		return fmt.Errorf("%w: %s", ErrStoreGone, o.dir.Streams())
	}
	return nil
}

// dismiss ends the connections of all clients and admits no new ones, so that no further write
// is acknowledged.
func (o *opened) dismiss() {
	o.auth.Closed.Store(true)
	own, err := o.conn.GetClientID()
	if err != nil {
		return
	}
	list, err := o.nats.Connz(&server.ConnzOptions{Limit: maxListed})
	if err != nil {
		return
	}
	for _, c := range list.Conns {
		if c.Cid != own {
			_ = o.nats.DisconnectClientByID(c.Cid) // it may have gone by itself
		}
	}
}

// close ends the server and waits until its files are closed; errStuck when it
// does not end, also when it still reads the store: it would go on, and write,
// long after another server has been opened.
func (o *opened) close() error {
	if o.front != nil {
		o.front.ForwardTo("")
	}
	if o.conn != nil {
		o.conn.Close()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.nats.Shutdown()
		o.nats.WaitForShutdown()
		<-o.started
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(closeTimeout):
		return errStuck
	}
}

// settle waits until the events that clients have sent before they were
// dismissed are recorded, and returns the Mark of the tip.
func (o *opened) settle(ctx context.Context) (event.Mark, error) {
	before, err := o.mine.TipMark(ctx)
	for err == nil {
		if !wake.Sleep(ctx, settlePause) {
			return before, ctx.Err()
		}
		var now event.Mark
		if now, err = o.mine.TipMark(ctx); err == nil && now == before {
			return now, nil
		}
		before = now
	}
	return before, err
}
