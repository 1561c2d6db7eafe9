// Package jetstream keeps the log of facts in a NATS JetStream stream, in our
// own server (eventbus/embedded) or in any other of version 2.12 or later.
//
// The stream is named ROUTING. The epoch stands in its metadata and in its
// subjects: the facts of one log are on routing.<epoch>.>, and the stream takes
// nothing else. So a writer that has not noticed that the log began again
// publishes to a subject that nobody listens on, and a reader's filter matches
// nothing of another epoch: the fence holds without a check that could race.
// Within the epoch each publish names the last sequence of its subject, which
// is the compare-and-set that also stops a former leader.
//
// Readers use ephemeral pull consumers without acknowledgement, and remember
// themselves how far they are (see follower.go): what a server or a broken
// connection forgets does not matter.
//
// The stream is bounded in bytes, in events per key and in the size of one
// event. It is not bounded in age: age would take away the newest fact of a key
// that has not changed for long, and with it the route. A stream that is full
// refuses more (ErrFull), rather than dropping what it has; its writer then
// begins a new epoch, which holds only what is true now.
package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// Config says where the log is and how large it may become.
type Config struct {
	// Conn reaches the server; the caller closes it, after all use of the log.
	Conn *nats.Conn
	// APIPrefix is where the server takes JetStream's calls; $JS.API when it is
	// empty. Followers of our own server have another (connect.FollowerAPI).
	APIPrefix string
	// Replicas is how many servers keep the stream; 1 when it is 0. More than
	// one needs a NATS cluster.
	Replicas int
	// MaxBytes bounds the stream; 256 MiB when it is 0.
	MaxBytes int64
	// History is how many events of one key are kept; eventbus.History when it
	// is 0.
	History int64
}

// Validate says what is wrong with the configuration, if anything.
func (c Config) Validate() error {
	switch {
	case c.Conn == nil:
		return errors.New("jetstream log: Conn is missing")
	case c.Replicas < 0 || c.Replicas > 5:
		return fmt.Errorf("jetstream log: Replicas is %d; JetStream takes 1 to 5", c.Replicas)
	case c.MaxBytes < 0:
		return fmt.Errorf("jetstream log: MaxBytes is %d; it bounds the stream, so it must be more than 0", c.MaxBytes)
	case c.History < 0:
		return fmt.Errorf("jetstream log: History is %d; at least the newest event of a key must be kept", c.History)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.APIPrefix == "" {
		c.APIPrefix = jetstream.DefaultAPIPrefix
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 256 << 20
	}
	if c.History == 0 {
		c.History = eventbus.History
	}
	return c
}

// Log is a log in JetStream. It is safe for concurrent use.
type Log struct {
	config Config
	js     jetstream.JetStream

	mu    sync.Mutex
	epoch string // the one this value writes to; empty before Begin
}

var _ eventbus.Log = (*Log)(nil)

// New gives the log that the connection reaches. It does not talk to the server
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
	return &Log{config: c, js: js}, nil
}

// Tip implements eventbus.Reader.
func (l *Log) Tip(ctx context.Context) (event.Pos, error) {
	_, pos, err := l.open(ctx)
	return pos, err
}

// Append implements eventbus.Log.
func (l *Log) Append(ctx context.Context, f event.Fact, last uint64) (event.Pos, error) {
	m, err := event.Encode(f)
	if err != nil {
		return event.Pos{}, fmt.Errorf("%w: %w", eventbus.ErrRefused, err)
	}
	epoch := l.believed()
	if epoch == "" {
		return event.Pos{}, fmt.Errorf("%w: Begin was not called", eventbus.ErrNoLog)
	}
	msg := toNATS(epoch, m)
	msg.Header.Set(jetstream.ExpectedStreamHeader, StreamName)
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))
	bounded, done := l.attempt(ctx)
	ack, err := l.js.PublishMsg(bounded, msg, jetstream.WithRetryAttempts(0))
	if err := done(err); err != nil {
		return event.Pos{}, l.appendError(ctx, epoch, f.Key, err)
	}
	return event.Pos{Epoch: epoch, Seq: ack.Sequence}, nil
}

// Newest implements eventbus.Log.
func (l *Log) Newest(ctx context.Context, key event.Key) (event.Recorded, bool, error) {
	stream, pos, err := l.open(ctx)
	if err != nil {
		return event.Recorded{}, false, err
	}
	bounded, done := l.attempt(ctx)
	raw, err := stream.GetLastMsgForSubject(bounded, subject(pos.Epoch, key.Subject()))
	err = done(err)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return event.Recorded{}, false, nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return event.Recorded{}, false, eventbus.ErrNoLog
	case err != nil:
		return event.Recorded{}, false, fmt.Errorf("read the newest fact of %q: %w", key, err)
	}
	at := event.Pos{Epoch: pos.Epoch, Seq: raw.Sequence}
	fact, err := fromNATS(pos.Epoch, raw.Subject, raw.Header, raw.Data)
	if err != nil && !errors.Is(err, event.ErrUnknownType) {
		return event.Recorded{}, false, fmt.Errorf("%w: %w", eventbus.ErrDamaged, err)
	}
	return event.Recorded{Pos: at, Fact: fact}, true, nil
}

func (l *Log) believed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

func (l *Log) believe(pos event.Pos) event.Pos {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch = pos.Epoch
	return pos
}

// subject is where the events of a key are in an epoch.
func subject(epoch, key string) string { return subjectPrefix + epoch + "." + key }

func toNATS(epoch string, m event.Message) *nats.Msg {
	msg := &nats.Msg{Subject: subject(epoch, m.Subject), Header: nats.Header{}, Data: m.Data}
	for name, value := range m.Header {
		msg.Header[name] = []string{value}
	}
	return msg
}

func fromNATS(epoch, on string, header nats.Header, data []byte) (event.Fact, error) {
	m := event.Message{
		Subject: strings.TrimPrefix(on, subjectPrefix+epoch+"."),
		Header:  make(map[string]string, len(header)),
		Data:    data,
	}
	for name, values := range header {
		if len(values) > 0 {
			m.Header[name] = values[0]
		}
	}
	return event.Decode(m)
}
