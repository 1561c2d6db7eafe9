package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

const (
	// batch is how many events are asked for at a time, and so the most that one
	// Next gives. With the largest events it stays under the 64 MiB that a
	// server keeps for a connection that does not read.
	batch = 512
	// idle is how long one request waits for events. A request that ends empty
	// is followed by a look at the stream, so this also bounds how long the end
	// of an epoch can go unnoticed.
	idle = 1500 * time.Millisecond
	// lost is after how long the server forgets a consumer that nobody asks.
	lost = 30 * time.Second
	// pause is between two attempts to go on, patience how many fail in a row,
	// with the server reached, before Next gives the error to its caller.
	pause    = 100 * time.Millisecond
	patience = 50
)

var errClosed = errors.New("the follower is closed")

// follower reads one epoch through one consumer after another. It trusts no
// consumer further than it can count: a consumer numbers what it delivers, so a
// gap shows that something was lost on the way, and after a reconnect nobody
// knows what was. In both cases a new consumer goes on behind the last event
// that was taken.
type follower struct {
	log   *Log
	conn  *nats.Conn
	epoch string
	// last is the sequence of the last event taken, 0 before the first; lastID
	// is its ce-id, by which it is known again.
	last   uint64
	lastID string

	// The present consumer, nil when there is none; how many events it gave; the
	// request that is under way, nil when there is none; whether that has given
	// anything.
	consumer  jetstream.Consumer
	delivered uint64
	request   jetstream.MessageBatch
	gave      bool
	// seen is the tip at the last look at the stream.
	seen     uint64
	failures int
	// failed is given by the Next after the one that gave the facts before it.
	failed error

	reconnected chan nats.Status
	closing     sync.Once
	closed      context.Context
	cancel      context.CancelFunc
}

// Follow implements eventbus.Reader.
func (l *Log) Follow(ctx context.Context) (eventbus.Follower, error) {
	_, pos, err := l.open(ctx)
	if err != nil {
		return nil, err
	}
	f := &follower{log: l, conn: l.config.Conn, epoch: pos.Epoch}
	f.closed, f.cancel = context.WithCancel(context.Background())
	// Listen before the consumer is made: a reconnect in between must be seen.
	f.reconnected = f.conn.StatusChanged(nats.CONNECTED)
	if err := f.consume(ctx); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close implements eventbus.Follower. The server forgets the consumer by itself.
func (f *follower) Close() {
	f.closing.Do(func() {
		f.cancel()
		f.conn.RemoveStatusListener(f.reconnected)
	})
}

// Next implements eventbus.Follower.
func (f *follower) Next(ctx context.Context) ([]event.Recorded, error) {
	if f.failed != nil {
		return nil, f.failed
	}
	for {
		facts, err := f.step(ctx)
		switch {
		case f.closed.Err() != nil:
			return nil, errClosed
		case ctx.Err() != nil && len(facts) == 0:
			return nil, ctx.Err()
		case len(facts) > 0:
			f.failures, f.failed = 0, err
			return facts, nil
		case errors.Is(err, eventbus.ErrEpochEnded), errors.Is(err, eventbus.ErrDamaged):
			f.failed = err
			return nil, err
		case err != nil:
			if err := f.recover(ctx, err); err != nil {
				return nil, err
			}
		}
	}
}

// step waits for one thing to happen: events, the end of a request, a reconnect.
func (f *follower) step(ctx context.Context) ([]event.Recorded, error) {
	if f.consumer == nil {
		if err := f.resume(ctx); err != nil {
			return nil, err
		}
	}
	if f.request == nil {
		if err := f.ask(); err != nil {
			return nil, err
		}
	}
	select {
	case msg, ok := <-f.request.Messages():
		if ok {
			return f.take(msg)
		}
		return nil, f.endRequest(ctx)
	case <-f.reconnected:
		f.reset()
		return nil, nil
	case <-f.closed.Done():
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *follower) reset() { f.consumer, f.request, f.delivered = nil, nil, 0 }

// recover decides after an error whether to try again, and waits a moment.
func (f *follower) recover(ctx context.Context, err error) error {
	f.reset()
	if f.conn.IsConnected() {
		f.failures++
	}
	if f.conn.IsClosed() || f.failures >= patience {
		return fmt.Errorf("follow stream %s: %w", StreamName, err)
	}
	select {
	case <-time.After(pause):
	case <-f.reconnected:
	case <-f.closed.Done():
	case <-ctx.Done():
	}
	return nil
}

// resume goes on behind the last event taken, if the log is still the one it was
// taken from.
func (f *follower) resume(ctx context.Context) error {
	stream, pos, err := f.log.open(ctx)
	if err := f.endedAt(pos, err); err != nil {
		return err
	}
	if f.last > 0 {
		bounded, done := f.log.attempt(ctx)
		raw, err := stream.GetMsg(bounded, f.last)
		err = done(err)
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return err
		}
		// A store that lost its end and was written again counts on from there:
		// same epoch, same sequence, another event. (Not found is no sign: the
		// event may have fallen out of its key's history.)
		if err == nil && raw.Header.Get("ce-id") != f.lastID {
			return fmt.Errorf("%w: event %d is another one than before; the store was rewound", eventbus.ErrEpochEnded, f.last)
		}
	}
	return f.consume(ctx)
}

// endedAt says whether a look at the stream shows that the epoch has ended.
func (f *follower) endedAt(pos event.Pos, err error) error {
	switch {
	case errors.Is(err, eventbus.ErrNoLog):
		return fmt.Errorf("%w: stream %s is gone", eventbus.ErrEpochEnded, StreamName)
	case err != nil:
		return err
	case pos.Epoch != f.epoch:
		return fmt.Errorf("%w: it was %s, now there is %s", eventbus.ErrEpochEnded, f.epoch, pos.Epoch)
	case pos.Seq < f.last:
		return fmt.Errorf("%w: it ends at %d and was seen up to %d; the store was rewound", eventbus.ErrEpochEnded, pos.Seq, f.last)
	}
	return nil
}

// consume makes a consumer that begins behind the last event taken.
func (f *follower) consume(ctx context.Context) error {
	config := jetstream.ConsumerConfig{
		FilterSubject:     subject(f.epoch, ">"),
		AckPolicy:         jetstream.AckNonePolicy,
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		InactiveThreshold: lost,
		MaxRequestBatch:   batch,
		MemoryStorage:     true,
		Replicas:          1,
	}
	if f.last > 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, f.last+1
	}
	bounded, done := f.log.attempt(ctx)
	consumer, err := f.log.js.CreateConsumer(bounded, StreamName, config)
	if err := done(err); err != nil {
		_, pos, look := f.log.open(ctx)
		if ended := f.endedAt(pos, look); ended != nil {
			return ended
		}
		return fmt.Errorf("create a consumer of stream %s: %w", StreamName, err)
	}
	f.consumer, f.delivered, f.request = consumer, 0, nil
	return nil
}

// ask sends the next request to the consumer. It lives as long as the follower,
// not as long as one Next, so that giving up a wait loses nothing.
func (f *follower) ask() error {
	ctx, cancel := context.WithTimeout(f.closed, idle)
	request, err := f.consumer.Fetch(batch, jetstream.FetchContext(ctx))
	if err != nil {
		cancel()
		return err
	}
	context.AfterFunc(ctx, cancel)
	f.request, f.gave = request, false
	return nil
}

// endRequest looks why a request ended, and whether the epoch goes on.
func (f *follower) endRequest(ctx context.Context) error {
	err, gave := f.request.Error(), f.gave
	f.request = nil
	if err != nil {
		// The consumer is gone or the way to it, or the answer broke off and
		// nobody knows how much of it is lost. The next step looks closer.
		f.reset()
	} else if gave {
		return nil
	}
	_, pos, err := f.log.open(ctx)
	if err := f.endedAt(pos, err); err != nil {
		return err
	}
	// An event that was there at the last look, a whole empty request ago, and
	// has not come, will not come.
	if f.seen > f.last {
		f.reset()
	}
	f.seen = pos.Seq
	return nil
}

// take takes an event and all that have come with it.
func (f *follower) take(msg jetstream.Msg) ([]event.Recorded, error) {
	var facts []event.Recorded
	for {
		r, err := f.takeOne(msg)
		if err != nil {
			return facts, err
		}
		facts = append(facts, r)
		select {
		case next, more := <-f.request.Messages():
			if !more {
				return facts, nil // the closed channel is met again in the next step
			}
			msg = next
		default:
			return facts, nil
		}
	}
}

var errGap = errors.New("events were lost on the way; asking again")

func (f *follower) takeOne(msg jetstream.Msg) (event.Recorded, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return event.Recorded{}, fmt.Errorf("%w: %w", errGap, err)
	}
	if meta.Sequence.Consumer != f.delivered+1 || meta.Sequence.Stream <= f.last {
		return event.Recorded{}, errGap
	}
	fact, err := fromNATS(f.epoch, msg.Subject(), msg.Headers(), msg.Data())
	if err != nil && !errors.Is(err, event.ErrUnknownType) {
		return event.Recorded{}, fmt.Errorf("%w: event %d: %w", eventbus.ErrDamaged, meta.Sequence.Stream, err)
	}
	f.gave, f.delivered = true, f.delivered+1
	f.last, f.lastID = meta.Sequence.Stream, msg.Headers().Get("ce-id")
	return event.Recorded{Pos: event.Pos{Epoch: f.epoch, Seq: f.last}, Fact: fact}, nil
}
