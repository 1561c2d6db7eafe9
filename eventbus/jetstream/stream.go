package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

const (
	// StreamName is the name of the stream.
	StreamName = "ROUTING"
	// Subjects matches everything that a log is ever written to.
	Subjects = subjectPrefix + ">"

	subjectPrefix = "routing."
	// epochKey is where the stream's metadata says its epoch.
	epochKey = "switchyard.dev/epoch"
	// maxConsumers bounds the readers, and those that were lost and not yet
	// swept away.
	maxConsumers = 1024
)

// streamConfig is how the stream of an epoch is to be.
func (l *Log) streamConfig(epoch string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:         StreamName,
		Description:  "Facts about routing: the newest of each subject is the present.",
		Subjects:     []string{subject(epoch, ">")},
		Storage:      jetstream.FileStorage,
		Retention:    jetstream.LimitsPolicy,
		Replicas:     l.config.Replicas,
		MaxBytes:     l.config.MaxBytes,
		MaxMsgSize:   eventbus.MaxEvent,
		MaxConsumers: maxConsumers,
		// No other bound: the stretch that is kept must have no gaps.
		MaxMsgs: -1, MaxMsgsPerSubject: -1, MaxAge: 0,
		// Refuse what does not fit. The other policy would drop the oldest event,
		// which may be the newest of its key.
		Discard: jetstream.DiscardNew,
		// Nothing is ever taken out of the middle; Forget purges the beginning.
		DenyDelete: true,
		DenyPurge:  false,
		// Single reads go to the stream's leader: a direct read may be answered
		// by a replica that is behind, and then a conflict would not resolve.
		AllowDirect:        false,
		AllowAtomicPublish: true,
		// Never acknowledge what is not on disk.
		PersistMode: jetstream.DefaultPersistMode,
		Metadata:    map[string]string{epochKey: epoch},
	}
}

// look is what the stream looked like at a moment.
type look struct {
	stream jetstream.Stream
	info   *jetstream.StreamInfo
	epoch  string
	// floor is the sequence of the first event, one behind tip when there is none.
	floor, tip uint64
}

// look looks at the stream; ErrNoLog when there is none.
func (l *Log) look(ctx context.Context) (look, error) {
	bounded, done := l.attempt(ctx)
	stream, err := l.js.Stream(bounded, StreamName)
	err = done(err)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return look{}, eventbus.ErrNoLog
	}
	if err != nil {
		return look{}, fmt.Errorf("look at stream %s: %w", StreamName, err)
	}
	info := stream.CachedInfo()
	epoch := info.Config.Metadata[epochKey]
	if epoch == "" {
		return look{}, fmt.Errorf("stream %s has no %s in its metadata, so it is not a routing log; "+
			"give Switchyard a NATS account of its own, or rename that stream", StreamName, epochKey)
	}
	seen := look{stream: stream, info: info, epoch: epoch, floor: info.State.FirstSeq, tip: info.State.LastSeq}
	if info.State.Msgs == 0 {
		seen.floor = seen.tip + 1
	}
	return seen, nil
}

// Begin implements eventbus.Log. A stream that is there keeps its epoch and gets
// the bounds that are configured now.
func (l *Log) Begin(ctx context.Context, known event.Mark) (event.Mark, error) {
	seen, err := l.look(ctx)
	if errors.Is(err, eventbus.ErrNoLog) {
		return l.create(ctx, known)
	}
	if err != nil {
		return event.Mark{}, err
	}
	if err := l.rebound(ctx, seen.info.Config, seen.epoch); err != nil {
		return event.Mark{}, err
	}
	return l.verify(ctx, seen, known)
}

// verify reads the whole log, and believes in it when it is right.
func (l *Log) verify(ctx context.Context, seen look, known event.Mark) (event.Mark, error) {
	v, r := eventbus.NewVerifier(seen.epoch, known), newReplica(seen.epoch)
	err := l.readTo(ctx, event.Pos{Epoch: seen.epoch, Seq: seen.floor - 1}, seen.tip, func(s event.Stored) error {
		if err := v.Take(s); err != nil {
			return err
		}
		chain, err := event.ChainOf(s.Message)
		if err != nil {
			return err
		}
		return r.add(s, event.Mark{Pos: s.Pos, Chain: chain})
	})
	if err != nil {
		return event.Mark{}, err
	}
	tip, err := v.Done(event.Pos{Epoch: seen.epoch, Seq: seen.tip})
	if err != nil {
		return event.Mark{}, err
	}
	return l.believe(r, tip), nil
}

func (l *Log) believe(r replica, tip event.Mark) event.Mark {
	l.state.Lock()
	defer l.state.Unlock()
	l.replica, l.unsure = r, false
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch = tip.Epoch
	return tip
}

// rebound brings the bounds of an existing stream to what is configured.
func (l *Log) rebound(ctx context.Context, have jetstream.StreamConfig, epoch string) error {
	want := l.streamConfig(epoch)
	if have.MaxBytes == want.MaxBytes && have.MaxMsgsPerSubject == want.MaxMsgsPerSubject && have.DenyPurge == want.DenyPurge &&
		have.MaxMsgSize == want.MaxMsgSize && have.Replicas == want.Replicas {
		return nil
	}
	bounded, done := l.attempt(ctx)
	_, err := l.js.UpdateStream(bounded, want)
	if err := done(err); err != nil {
		return fmt.Errorf("change the bounds of stream %s: %w", StreamName, err)
	}
	return nil
}

func (l *Log) create(ctx context.Context, known event.Mark) (event.Mark, error) {
	epoch := eventbus.NewEpoch()
	bounded, done := l.attempt(ctx)
	_, err := l.js.CreateStream(bounded, l.streamConfig(epoch))
	err = done(err)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		// Somebody else began it in this moment. Theirs is the log.
		seen, err := l.look(ctx)
		if err != nil {
			return event.Mark{}, err
		}
		return l.verify(ctx, seen, known)
	}
	if err != nil {
		return event.Mark{}, fmt.Errorf("create stream %s: %w", StreamName, err)
	}
	return l.believe(newReplica(epoch), event.Before(epoch)), nil
}

// Restart implements eventbus.Log. Should it fail half-way there is no log, and
// Begin begins one.
func (l *Log) Restart(ctx context.Context, epoch string) (event.Mark, error) {
	seen, err := l.look(ctx)
	if err != nil && !errors.Is(err, eventbus.ErrNoLog) {
		return event.Mark{}, err
	}
	if err == nil && epoch != "" && seen.epoch != epoch {
		return event.Mark{}, fmt.Errorf("%w: it was %s, now there is %s", eventbus.ErrEpochEnded, epoch, seen.epoch)
	}
	bounded, done := l.attempt(ctx)
	err = done(l.js.DeleteStream(bounded, StreamName))
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return event.Mark{}, fmt.Errorf("end the log in stream %s: %w", StreamName, err)
	}
	return l.create(ctx, event.Mark{})
}

// Forget implements eventbus.Log.
func (l *Log) Forget(ctx context.Context, floor event.Pos) error {
	l.state.Lock()
	defer l.state.Unlock()
	seen, err := l.look(ctx)
	switch {
	case err != nil:
		return err
	case l.replica.tip.Epoch == "":
		return fmt.Errorf("%w: Begin was not called", eventbus.ErrNoLog)
	case seen.epoch != floor.Epoch || l.replica.tip.Epoch != floor.Epoch:
		return fmt.Errorf("%w: it was %s, now there is %s", eventbus.ErrEpochEnded, floor.Epoch, seen.epoch)
	case floor.Seq <= seen.floor:
		return nil
	}
	bounded, done := l.attempt(ctx)
	raw, err := seen.stream.GetMsg(bounded, floor.Seq)
	err = done(err)
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && raw.Subject != subject(floor.Epoch, event.LogFloor.Subject()) {
		return fmt.Errorf("%w: event %d is no floor to begin at", eventbus.ErrRefused, floor.Seq)
	}
	if err != nil {
		return fmt.Errorf("read the floor at %d: %w", floor.Seq, err)
	}
	bounded, done = l.attempt(ctx)
	if err := done(seen.stream.Purge(bounded, jetstream.WithPurgeSequence(floor.Seq))); err != nil {
		return fmt.Errorf("forget what lies before %d: %w", floor.Seq, err)
	}
	l.replica.forget(floor.Seq)
	return nil
}
