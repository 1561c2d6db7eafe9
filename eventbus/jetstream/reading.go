package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	// idle is how long one request waits for events. After an empty request the stream is
	// checked, so this also bounds how long the end of an epoch can go unnoticed.
	idle = 1500 * time.Millisecond
	// lost is after how long the server deletes an unused consumer.
	lost = 30 * time.Second
	// pause is between two attempts to go on, patience how many fail in a row,
	// with the server reached, before Next gives the error to its caller.
	pause    = 100 * time.Millisecond
	patience = 50
)

var errClosed = errors.New("the follower is closed")

// reading reads one epoch through one consumer after another. It verifies what a consumer
// delivers by its numbering: a gap shows that a message was lost, and after a reconnect losses
// are unknown. In both cases a new consumer continues after the last event taken.
type reading struct {
	log   *Log
	conn  *nats.Conn
	epoch string
	// fold is true for a follower, which begins with the newest event of each key.
	// Up to loose gaps are due to that; from there to strict they may be.
	fold          bool
	loose, strict uint64
	// last is the place of the last event taken, or of the one before the first
	// that is wanted. Its checksum is the zero one where it is not known.
	last event.Mark

	// The present consumer, nil when there is none; how many events it gave; the
	// request that is under way, nil when there is none; whether that has given
	// anything.
	consumer  jetstream.Consumer
	delivered uint64
	request   jetstream.MessageBatch
	gave      bool
	// seen is the tip when the stream was last checked; stuck counts how often the event after
	// the last one did not arrive although it exists.
	seen     uint64
	stuck    int
	failures int
	// failed is given by the Next after the one that gave the events before it.
	failed error

	reconnected chan nats.Status
	// mu guards made: the name of the consumer that the server may have for this
	// reading, "" when it has none. Close may come from another goroutine.
	mu      sync.Mutex
	made    string
	closing sync.Once
	closed  context.Context
	cancel  context.CancelFunc
}

// Read implements eventbus.Reader.
func (l *Log) Read(ctx context.Context, behind event.Pos) (eventbus.Cursor, error) {
	seen, err := l.readState(ctx)
	if err != nil {
		return nil, err
	}
	if behind == (event.Pos{}) {
		behind = event.Pos{Epoch: seen.epoch, Seq: seen.floor - 1}
	}
	r := l.reading(behind)
	if err := r.endedAt(seen, nil); err != nil {
		r.Close()
		return nil, err
	}
	if err := r.consume(ctx); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Follow implements eventbus.Reader.
func (l *Log) Follow(ctx context.Context) (eventbus.Follower, error) {
	before, err := l.readState(ctx)
	if err != nil {
		return nil, err
	}
	r := l.reading(event.Pos{Epoch: before.epoch})
	r.fold, r.loose = true, before.tip
	err = r.consume(ctx)
	if err == nil {
		var after streamState
		after, err = l.readState(ctx)
		err = r.endedAt(after, err)
		r.strict = after.tip
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return eventbus.FollowerOf(r), nil
}

// reading returns a reading that begins behind a place.
func (l *Log) reading(behind event.Pos) *reading {
	r := &reading{log: l, conn: l.config.Conn, epoch: behind.Epoch, last: event.Mark{Pos: behind}}
	if behind.Seq == 0 {
		r.last = event.Before(behind.Epoch)
	}
	r.closed, r.cancel = context.WithCancel(context.Background())
	// Listen before the consumer is made: a reconnect in between must be seen.
	r.reconnected = r.conn.StatusChanged(nats.CONNECTED)
	return r
}

// Close implements eventbus.Cursor.
func (r *reading) Close() {
	r.closing.Do(func() {
		r.cancel()
		r.drop()
		r.conn.RemoveStatusListener(r.reconnected)
	})
}

// Next implements eventbus.Cursor.
func (r *reading) Next(ctx context.Context) ([]event.Stored, error) {
	if r.failed != nil {
		return nil, r.failed
	}
	for {
		events, err := r.step(ctx)
		switch {
		case r.closed.Err() != nil:
			return nil, errClosed
		case ctx.Err() != nil && len(events) == 0:
			return nil, ctx.Err()
		case len(events) > 0:
			r.failures, r.stuck = 0, 0
			if final(err) {
				r.failed = err
			} else if err != nil {
				r.reset()
			}
			return events, nil
		case final(err):
			r.failed = err
			return nil, err
		case err != nil:
			if err := r.recover(ctx, err); err != nil {
				return nil, err
			}
		}
	}
}

// final reports whether an error ends a reading for good.
func final(err error) bool {
	return errors.Is(err, eventbus.ErrEpochEnded) || errors.Is(err, eventbus.ErrDamaged) || errors.Is(err, eventbus.ErrGone)
}

// step waits for one thing to happen: events, the end of a request, a reconnect.
func (r *reading) step(ctx context.Context) ([]event.Stored, error) {
	if r.consumer == nil {
		if err := r.resume(ctx); err != nil {
			return nil, err
		}
	}
	if r.request == nil {
		if err := r.ask(); err != nil {
			return nil, err
		}
	}
	select {
	case msg, ok := <-r.request.Messages():
		if ok {
			return r.take(ctx, msg)
		}
		return nil, r.endRequest(ctx)
	case <-r.reconnected:
		r.reset()
		return nil, nil
	case <-r.closed.Done():
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *reading) reset() {
	r.drop()
	r.consumer, r.request, r.delivered = nil, nil, 0
}

// drop asks the server to delete the consumer, so that it does not count until the server
// deletes it by itself (lost). It does not wait for the answer: if the request is lost the
// server still deletes the consumer in time.
func (r *reading) drop() {
	r.mu.Lock()
	name := r.made
	r.made = ""
	r.mu.Unlock()
	if name == "" {
		return
	}
	err := r.conn.PublishMsg(&nats.Msg{
		Subject: strings.TrimSuffix(r.log.config.APIPrefix, ".") + ".CONSUMER.DELETE." + StreamName + "." + name,
		Reply:   r.conn.NewInbox(),
	})
	if err != nil {
		r.log.config.Logger.Debug("a consumer could not be deleted; the server forgets it by itself", "consumer", name, "after", lost.String(), "error", err)
	}
}

// hold takes note of a consumer that the server may have.
func (r *reading) hold(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made = name
}

// recover decides after an error whether to try again, and waits a moment.
func (r *reading) recover(ctx context.Context, err error) error {
	r.reset()
	if r.conn.IsConnected() {
		r.failures++
	}
	if r.conn.IsClosed() || r.failures >= patience {
		return fmt.Errorf("read stream %s: %w", StreamName, err)
	}
	select {
	case <-time.After(pause):
	case <-r.reconnected:
	case <-r.closed.Done():
	case <-ctx.Done():
	}
	return nil
}

// resume goes on behind the last event taken, if the log is still the one it was
// taken from.
func (r *reading) resume(ctx context.Context) error {
	seen, err := r.log.readState(ctx)
	if err := r.endedAt(seen, err); err != nil {
		return err
	}
	if r.last.Seq >= seen.floor && r.last.Chain != (event.Chain{}) {
		// A store that lost its end and was written again counts on from there:
		// same epoch, same sequence, another event.
		here, err := r.log.get(ctx, seen, r.last.Seq)
		if err != nil {
			return err
		}
		if chain, err := event.ChainOf(here.Message); err != nil || chain != r.last.Chain {
			return fmt.Errorf("%w: event %d is another one than before; the store was rewound", eventbus.ErrEpochEnded, r.last.Seq)
		}
	}
	return r.consume(ctx)
}

// endedAt returns an error when the stream shows that the epoch has ended, or that the next
// events were forgotten.
func (r *reading) endedAt(seen streamState, err error) error {
	switch {
	case errors.Is(err, eventbus.ErrNoLog):
		return fmt.Errorf("%w: stream %s was deleted", eventbus.ErrEpochEnded, StreamName)
	case err != nil:
		return err
	case seen.epoch != r.epoch:
		return epochEnded(r.epoch, seen.epoch)
	case seen.tip < r.last.Seq:
		return fmt.Errorf("%w: it ends at %d and was seen up to %d; the store was rewound", eventbus.ErrEpochEnded, seen.tip, r.last.Seq)
	case seen.floor > r.last.Seq+1 && (!r.fold || r.last.Seq > 0):
		return fmt.Errorf("%w: %d is below the floor %d", eventbus.ErrGone, r.last.Seq+1, seen.floor)
	}
	return nil
}

// consume makes a consumer that begins behind the last event taken.
func (r *reading) consume(ctx context.Context) error {
	// Named before it is created, so that it can be deleted even if the answer is lost.
	config := jetstream.ConsumerConfig{
		Name:              "reader-" + eventbus.NewEpoch(),
		FilterSubject:     subject(r.epoch, ">"),
		AckPolicy:         jetstream.AckNonePolicy,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       r.last.Seq + 1,
		InactiveThreshold: lost,
		MaxRequestBatch:   batch,
		MemoryStorage:     true,
		Replicas:          1,
	}
	if r.fold && r.last.Seq == 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverLastPerSubjectPolicy, 0
	}
	r.drop()
	r.hold(config.Name)
	bounded, done := r.log.attempt(ctx)
	consumer, err := r.log.js.CreateConsumer(bounded, StreamName, config)
	if r.closed.Err() != nil {
		// Close may have had it deleted before it was made.
		r.hold(config.Name)
		r.drop()
	}
	if err := done(err); err != nil {
		r.drop()
		if ended := r.endedAt(r.log.readState(ctx)); ended != nil {
			return ended
		}
		return fmt.Errorf("create a consumer of stream %s: %w", StreamName, err)
	}
	r.consumer, r.delivered, r.request = consumer, 0, nil
	return nil
}

// ask sends the next request to the consumer. It lives as long as the reading,
// not as long as one Next, so that giving up a wait loses nothing.
func (r *reading) ask() error {
	ctx, cancel := context.WithTimeout(r.closed, idle)
	request, err := r.consumer.Fetch(batch, jetstream.FetchContext(ctx))
	if err != nil {
		cancel()
		return err
	}
	context.AfterFunc(ctx, cancel)
	r.request, r.gave = request, false
	return nil
}

// endRequest looks why a request ended, and whether the epoch goes on.
func (r *reading) endRequest(ctx context.Context) error {
	err, gave := r.request.Error(), r.gave
	r.request = nil
	if err != nil {
		// The consumer or the connection was lost, or the answer was incomplete by an unknown
		// amount. The next step checks the stream.
		r.reset()
	} else if gave {
		return nil
	}
	seen, err := r.log.readState(ctx)
	if err := r.endedAt(seen, err); err != nil {
		return err
	}
	// An event that was there at the last look, a whole empty request ago, and
	// has not come, will not come from this consumer.
	if r.seen > r.last.Seq {
		r.reset()
		if r.stuck++; r.stuck > 1 && r.last.Seq+1 >= seen.floor {
			// It does not come from any: is it there?
			if _, err := r.log.get(ctx, seen, r.last.Seq+1); err != nil {
				return err
			}
		}
	}
	r.seen = seen.tip
	return nil
}
