package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus/embedded/clients"
	"switchyard.dev/eventbus/embedded/store"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
)

// Server is a running server: one NATS server after another on one store, since
// after a disk error only a new one can be trusted with the files.
type Server struct {
	config Config
	dir    store.Dir
	// front is where the server listens, all its life; nil when it does not.
	front *clients.Front
	// secret is the token by which connections from inside the process are known.
	secret string
	// recordsSecret is that of connections to the records of connections.
	recordsSecret string
	// unfinished counts the openings before this one that never ended. Only the
	// goroutine that opens uses it.
	unfinished int

	mu sync.Mutex
	// open is the present NATS server, nil while the store is closed; trouble is
	// why it is closed.
	open    *opened
	trouble error
	counts  counts

	stop   context.CancelFunc
	ended  chan struct{}
	failed chan error
}

// counts are what the server counts of its own doings.
type counts struct {
	maxBytes  int64
	witnessed event.Mark
	aside     map[store.Damage]uint64
	lastAside Aside
	healed    uint64
}

// Aside is a store that was moved aside.
type Aside struct {
	// Kind is the kind of damage, Why the reason.
	Kind store.Damage
	Why  string
	// Path is where it is now, if it is kept.
	Path string
	At   time.Time
}

// ErrStoreGone means that the files of the log were removed or replaced while the server was
// running. The server then opens the current files.
var ErrStoreGone = errors.New("event bus: the store directory was removed or replaced")

// Start starts the server. It opens the store, reads and verifies the whole log,
// and only then lets clients in; a store that is damaged is moved aside, and an empty
// one begins. An error means that the configuration does not work. When the disk
// is full or fails, the server starts all the same, is not ready, and opens the
// store as soon as it can. Close ends it.
func Start(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Server{config: c.withDefaults(), dir: store.Dir(c.StoreDir), secret: rand.Text(), recordsSecret: rand.Text(), ended: make(chan struct{}), failed: make(chan error, 1)}
	s.counts.aside = map[store.Damage]uint64{}
	if c.Listen != "" {
		front, err := clients.OpenFront(c.Listen, s.config.MaxConnections, s.config.Logger)
		if err != nil {
			return nil, err
		}
		s.front = front
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	var o *opened
	var err error
	if s.unfinished, err = s.dir.Openings(); err == nil {
		o, err = s.reopen(ctx)
	}
	if err != nil && !store.OfDisk(err) {
		stop()
		return nil, errors.Join(err, s.leave())
	}
	if err != nil {
		s.config.Logger.Error("the event bus starts without the routing log, because its disk has failed; "+
			"it opens the log by itself once the disk works", "reason", err)
	}
	s.now(o, err)
	go s.keep(ctx)
	return s, nil
}

// Addr is the address that the server listens on; nil when it does not. It stays
// the same for the life of the server.
func (s *Server) Addr() net.Addr {
	if s.front == nil {
		return nil
	}
	return s.front.Addr()
}

// leave gives up the address.
func (s *Server) leave() error {
	if s.front == nil {
		return nil
	}
	return s.front.Close()
}

// Conn returns a connection from inside the process, with the rights of a writer
// and followers both. It connects again by itself when the store was closed and
// opened. The caller closes it.
func (s *Server) Conn(ctx context.Context) (*nats.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	conn, err := nats.Connect("", nats.InProcessServer(inProcess{s}), nats.Name("in-process"), nats.Token(s.secret),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		return nil, fmt.Errorf("event bus: connect from inside the process: %w", err)
	}
	return conn, nil
}

// inProcess connects clients inside the process to the current NATS server.
type inProcess struct{ to *Server }

// InProcessConn implements nats.InProcessConnProvider.
func (d inProcess) InProcessConn() (net.Conn, error) {
	o, err := d.to.present()
	if err != nil {
		return nil, err
	}
	return o.nats.InProcessConn()
}

// present returns the present NATS server, or why there is none.
func (s *Server) present() (*opened, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open, s.trouble
}

// now sets the present NATS server, or why there is none.
func (s *Server) now(o *opened, trouble error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.trouble = o, trouble
}

// count changes the counts.
func (s *Server) count(change func(*counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.counts)
}

// Ready returns why the server cannot serve, nil when it can. It touches no file's
// content, so a slow disk does not hold it up.
func (s *Server) Ready() error {
	o, err := s.present()
	if err != nil {
		return err
	}
	return o.quick()
}

// Failed returns the reason, once, when the server cannot heal itself: its NATS
// server hangs and holds the files. Then the process must be started again.
func (s *Server) Failed() <-chan error { return s.failed }

// Stats counts the contents of the server and its connections.
type Stats struct {
	// Events and Bytes are the contents of the disk, over all streams; 0 while the store is
	// closed.
	Events, Bytes uint64
	// LastSeq is the sequence of the log's last event; 0 when there is no log.
	LastSeq uint64
	// MaxBytes is the bound of Bytes.
	MaxBytes uint64
	// Connections counts the clients, and Closed the connections of strangers that were
	// closed to make room for others.
	Connections int
	Closed      uint64
	// Synced reports whether every write is on disk before it is acknowledged.
	Synced bool
	// Witnessed is what the witness holds: the newest event known to be on disk.
	Witnessed event.Mark
	// MovedAside counts the stores that were moved aside, by their damage, and LastAside
	// describes the last one.
	MovedAside map[store.Damage]uint64
	LastAside  Aside
	// Healed counts how often the store was opened again after the disk failed.
	Healed uint64
}

// Stats reads the counts of this moment.
func (s *Server) Stats() (Stats, error) {
	s.mu.Lock()
	o, c := s.open, s.counts
	stats := Stats{
		MaxBytes: uint64(c.maxBytes), Synced: !s.config.Unsynced, Witnessed: c.witnessed,
		MovedAside: maps.Clone(c.aside), LastAside: c.lastAside, Healed: c.healed,
	}
	s.mu.Unlock()
	if s.front != nil {
		stats.Closed = s.front.Closed()
	}
	if o == nil {
		return stats, nil
	}
	info, err := o.nats.Jsz(&server.JSzOptions{Account: store.Account, Streams: true})
	if err != nil && o.quick() != nil {
		return stats, nil // it was closed in this moment
	}
	if err != nil {
		return stats, fmt.Errorf("event bus: %w", err)
	}
	stats.Events, stats.Bytes, stats.Synced = info.Messages, info.Bytes, info.Config.SyncAlways
	stats.Connections = max(o.nats.NumClients()-1, 0) // without our own
	for _, account := range info.AccountDetails {
		for _, one := range account.Streams {
			if one.Name == jetstream.StreamName {
				stats.LastSeq = one.State.LastSeq
			}
		}
	}
	return stats, nil
}

// MovedAside returns how many damaged stores were moved aside, and describes the last one.
func (s *Server) MovedAside() (uint64, Aside) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n uint64
	for _, of := range s.counts.aside {
		n += of
	}
	return n, s.counts.lastAside
}

// Witnessed returns what the witness holds: the newest event known to be on disk;
// the zero Mark when there is no log.
func (s *Server) Witnessed() event.Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.witnessed
}

// Close ends the server and waits until its files are closed. The witness is
// exact then.
func (s *Server) Close() {
	s.stop()
	<-s.ended
}
