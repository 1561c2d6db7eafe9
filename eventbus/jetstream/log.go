// Package jetstream keeps the log of facts in a NATS JetStream stream, in the operator's own
// server (eventbus/embedded) or in any other of version 2.12 or later.
//
// The stream is named ROUTING. The epoch is in its metadata and in its subjects: the facts of
// one log are on routing.<epoch>.>, and the stream accepts nothing else. So a writer that has
// not noticed that the log began again publishes to a subject without a subscriber, and a
// reader's filter matches nothing of another epoch: the fence holds without a check that could
// race.
//
// A writer is a replica of the log: Begin reads and verifies all of it, and from then on the
// writer knows the tip, its checksum, and the place of the newest event of each key (replica).
// It publishes with the tip that it knows, so that a write by another program in between makes
// the publish fail; the writer then reads that first and decides again. This is the
// compare-and-set, and it also stops a former leader.
//
// Facts that are appended at the same time are committed together (commit): one goroutine takes
// all that wait, decides each against the replica in order, seals them and publishes them as
// one atomic batch, so that they share the wait for the disk. When an answer is missing it
// reads the log: its own events are known by their checksums, so no fact is recorded twice and
// the outcome of few is unknown.
//
// Readers use ephemeral pull consumers without acknowledgement, and keep their own position
// (reading): it does not matter what a server or a broken connection forgets.
//
// The stream is bounded in bytes and in the size of one event, and the server never drops
// events from it: a full stream refuses more (ErrFull), until its writer forgets old events.
// Forgetting purges the beginning; the server does that file by file, so a crash can leave some
// of the events below the floor, and the next Begin finishes it (Verification).
//
// The server must have every event on disk before it acknowledges it: SyncAlways, which the
// operator's own server sets, and which a client cannot check. A stream that is configured to
// acknowledge earlier is refused.
package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// DefaultMaxBytes bounds a stream for which nothing else is asked.
const DefaultMaxBytes = 256 << 20

// Config has the connection to the log and its bounds.
type Config struct {
	// Conn reaches the server; the caller closes it, after all use of the log.
	Conn *nats.Conn
	// APIPrefix is where the server takes JetStream's calls; $JS.API when it is
	// empty. Followers of our own server have another (connect.FollowerAPI).
	APIPrefix string
	// Replicas is how many servers keep the stream; 1 when it is 0. More than
	// one needs a NATS cluster.
	Replicas int
	// MaxBytes bounds the stream; DefaultMaxBytes when it is 0.
	MaxBytes int64
	// Logger takes what happens to the log; slog.Default() when it is nil.
	Logger *slog.Logger
}

// Validate returns an error if the configuration is not valid.
func (c Config) Validate() error {
	switch {
	case c.Conn == nil:
		return errors.New("jetstream log: Conn is missing")
	case c.Replicas < 0 || c.Replicas > 5:
		return fmt.Errorf("jetstream log: Replicas is %d; JetStream takes 1 to 5", c.Replicas)
	case c.MaxBytes < 0:
		return fmt.Errorf("jetstream log: MaxBytes is %d; it bounds the stream, so it must be more than 0", c.MaxBytes)
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.APIPrefix = cmp.Or(c.APIPrefix, jetstream.DefaultAPIPrefix)
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.MaxBytes = cmp.Or(c.MaxBytes, DefaultMaxBytes)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// Log is a log in JetStream. It is safe for concurrent use.
type Log struct {
	config Config
	js     jetstream.JetStream

	// state is locked by the committing goroutine. The replica is of the epoch that this value
	// writes to, the empty one before Begin; when it is unsure, the last published facts may or
	// may not be in the log.
	state   sync.Mutex
	replica replica
	unsure  bool
	// id and batches name the atomic batches.
	id      string
	batches uint64
	cost    cost

	// mu guards the fields below; it is never locked during a wait.
	mu    sync.Mutex
	epoch string // the replica's
	// queue has the facts that wait to be committed; committing is true while a goroutine does
	// that, lastBatch is how many it took the last time.
	queue      []*waiting
	committing bool
	lastBatch  int
	// enough is closed when the queue is as long as lastBatch; nil when there is no waiter.
	enough chan struct{}
}

var _ eventbus.Log = (*Log)(nil)

// New returns the log that the connection reaches. It does not talk to the server
// yet; a reader may use the value as it is, a writer calls Begin first.
func New(c Config) (*Log, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	js, err := jetstream.NewWithAPIPrefix(c.Conn, c.APIPrefix)
	if err != nil {
		return nil, fmt.Errorf("jetstream log: %w", err)
	}
	return &Log{config: c, js: js, id: eventbus.NewEpoch()}, nil
}

// Tip implements eventbus.Reader.
func (l *Log) Tip(ctx context.Context) (event.Pos, error) {
	kept, err := l.Kept(ctx)
	return kept.Tip, err
}

// Kept implements eventbus.Reader.
func (l *Log) Kept(ctx context.Context) (eventbus.Kept, error) {
	now, err := l.readState(ctx)
	if err != nil {
		return eventbus.Kept{}, err
	}
	return eventbus.Kept{
		Floor: event.Pos{Epoch: now.epoch, Seq: now.floor}, Tip: event.Pos{Epoch: now.epoch, Seq: now.tip},
		Bytes: now.info.State.Bytes, MaxBytes: uint64(max(now.info.Config.MaxBytes, 0)),
	}, nil
}

// TipMark returns the Mark of the newest event that is on disk. It requests the event itself:
// the stream's information can be ahead of the disk while a batch is written. ErrNoLog when
// there is no log.
func (l *Log) TipMark(ctx context.Context) (event.Mark, error) {
	seen, err := l.readState(ctx)
	if err != nil {
		return event.Mark{}, err
	}
	bounded, done := l.attempt(ctx)
	// On any subject, for which the server returns its last event. It matches any narrower
	// wildcard against every subject, under a lock that writers need.
	raw, err := seen.stream.GetLastMsgForSubject(bounded, ">")
	s, err := received(seen, raw, done(err))
	if errors.Is(err, jetstream.ErrMsgNotFound) && seen.tip == 0 {
		return event.Before(seen.epoch), nil
	}
	if err != nil {
		return event.Mark{}, fmt.Errorf("read the newest event: %w", err)
	}
	if epoch := epochOf(raw.Subject); epoch != seen.epoch {
		return event.Mark{}, epochEnded(seen.epoch, epoch)
	}
	chain, err := event.ChainOf(s.Message)
	return event.Mark{Pos: s.Pos, Chain: chain}, err
}

// Newest implements eventbus.Log.
func (l *Log) Newest(ctx context.Context, key event.Key) (event.Recorded, bool, error) {
	seen, err := l.readState(ctx)
	if err != nil {
		return event.Recorded{}, false, err
	}
	s, err := l.newest(ctx, seen, key.Subject())
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return event.Recorded{}, false, nil
	case err != nil:
		return event.Recorded{}, false, fmt.Errorf("read the newest fact of %q: %w", key, err)
	}
	r, err := eventbus.OpenEvent(s)
	return r, err == nil, err
}

// answerTimeout bounds one request. A healthy server answers within milliseconds, one with a
// slow disk within a second; a server that does not answer at all, because its disk is full or
// broken, counts as unreachable.
const answerTimeout = 5 * time.Second

var (
	errNoAnswer     = errors.New("the event bus did not answer in time")
	errAway         = errors.New("the event bus is not connected")
	errDisconnected = errors.New("the connection to the event bus was lost before the answer came")
)

// attempt bounds one request to the server: by answerTimeout, and by the life of
// the connection, because the answer to a request never comes over the next one.
// The caller calls done with the error of the request, and gets the reason.
func (l *Log) attempt(ctx context.Context) (bounded context.Context, done func(error) error) {
	ctx, stopTimer := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	ctx, cancel := context.WithCancelCause(ctx)
	lost := l.config.Conn.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	go func() {
		select {
		case <-lost:
			cancel(errDisconnected)
		case <-ctx.Done():
		}
	}()
	return ctx, func(err error) error {
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		// The client's error for a request that it would have to buffer.
		if errors.Is(err, nats.ErrReconnectBufExceeded) {
			err = errAway
		}
		l.config.Conn.RemoveStatusListener(lost)
		cancel(nil)
		stopTimer()
		return err
	}
}

// subject is where the events of a key are in an epoch.
func subject(epoch, key string) string { return subjectPrefix + epoch + "." + key }

// epochOf returns the epoch that a subject of the stream names.
func epochOf(subject string) string {
	epoch, _, _ := strings.Cut(strings.TrimPrefix(subject, subjectPrefix), ".")
	return epoch
}

func toNATS(epoch string, m event.Message) *nats.Msg {
	msg := &nats.Msg{Subject: subject(epoch, m.Subject), Header: make(nats.Header, len(m.Header)+4), Data: m.Data}
	values := make([]string, 0, len(m.Header)) // one piece of memory for all of them
	for name, value := range m.Header {
		values = append(values, value)
		msg.Header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return msg
}

// attributes begins the name of every header that is part of an event; the
// others are the transport's.
const attributes = "ce-"

func fromNATS(pos event.Pos, on string, header nats.Header, data []byte) event.Stored {
	m := event.Message{
		Subject: strings.TrimPrefix(on, subject(pos.Epoch, "")),
		Header:  make(map[string]string, len(header)),
		Data:    data,
	}
	for name, values := range header {
		if len(values) > 0 && strings.HasPrefix(name, attributes) {
			m.Header[name] = values[0]
		}
	}
	return event.Stored{Pos: pos, Message: m}
}

// Forget implements eventbus.Log.
func (l *Log) Forget(ctx context.Context, floor event.Pos) error {
	l.state.Lock()
	defer l.state.Unlock()
	seen, err := l.readState(ctx)
	switch {
	case err != nil:
		return err
	case l.replica.tip.Epoch == "":
		return fmt.Errorf("%w: Begin was not called", eventbus.ErrNoLog)
	case seen.epoch != floor.Epoch || l.replica.tip.Epoch != floor.Epoch:
		return epochEnded(floor.Epoch, seen.epoch)
	case floor.Seq <= seen.floor:
		return nil
	}
	at, err := l.message(ctx, seen, floor.Seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && at.Message.Subject != event.LogFloor.Subject() {
		return fmt.Errorf("%w: event %d is no floor to begin at", eventbus.ErrRefused, floor.Seq)
	}
	if err != nil {
		return fmt.Errorf("read the floor at %d: %w", floor.Seq, err)
	}
	if err := l.purge(ctx, seen, floor.Seq); err != nil {
		return err
	}
	l.replica.forget(floor.Seq)
	return nil
}

// finishForgetting finishes an interrupted Forget: the server had deleted a part of the events
// below a floor.
func (l *Log) finishForgetting(ctx context.Context, seen streamState, floor uint64, why error) error {
	l.config.Logger.Warn("forgetting old events of the routing log was interrupted; finishing it",
		"epoch", seen.epoch, "first", seen.floor, "floor", floor, "reason", why)
	return l.purge(ctx, seen, floor)
}

func (l *Log) purge(ctx context.Context, seen streamState, floor uint64) error {
	bounded, done := l.attempt(ctx)
	if err := done(seen.stream.Purge(bounded, jetstream.WithPurgeSequence(floor))); err != nil {
		return fmt.Errorf("forget what lies before %d: %w", floor, err)
	}
	return nil
}
