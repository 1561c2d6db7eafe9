package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
)

// Begin implements eventbus.Log. A stream that is there is verified, keeps its
// epoch and gets the bounds that are configured now.
func (l *Log) Begin(ctx context.Context, known event.Mark) (event.Mark, error) {
	seen, err := l.readState(ctx)
	if errors.Is(err, eventbus.ErrNoLog) {
		return l.create(ctx, known)
	}
	if err != nil {
		return event.Mark{}, err
	}
	return l.takeOver(ctx, seen, known)
}

// takeOver verifies the log that is there, and believes in it when it is right.
// Nothing is written before that is certain.
func (l *Log) takeOver(ctx context.Context, seen streamState, known event.Mark) (event.Mark, error) {
	switch have := seen.info.Config; {
	case have.PersistMode == jetstream.AsyncPersistMode:
		return event.Mark{}, fmt.Errorf("stream %s has persist mode async, so it acknowledges events before they are on disk and would lose them in a power failure; "+
			"delete the stream or give Switchyard a NATS account of its own", StreamName)
	case have.DenyPurge:
		return event.Mark{}, fmt.Errorf("%w: stream %s was made by an older version, and can forget nothing", eventbus.ErrDamaged, StreamName)
	}
	v := NewVerification(seen.epoch, known)
	if err := l.readTo(ctx, event.Pos{Epoch: seen.epoch, Seq: seen.floor - 1}, seen.tip, v.Take); err != nil {
		return event.Mark{}, err
	}
	tip, err := v.Done(event.Pos{Epoch: seen.epoch, Seq: seen.tip})
	if err != nil {
		return event.Mark{}, err
	}
	if err := l.rebound(ctx, seen.info.Config, seen.epoch); err != nil {
		return event.Mark{}, err
	}
	if v.headless != nil {
		if err := l.finishForgetting(ctx, seen, v.floor, v.headless); err != nil {
			return event.Mark{}, err
		}
		v.replica.forget(v.floor)
	}
	return l.believe(v.replica, tip), nil
}

// rebound updates the bounds of an existing stream to the configured ones.
func (l *Log) rebound(ctx context.Context, have jetstream.StreamConfig, epoch string) error {
	want := l.streamConfig(epoch)
	want.MaxConsumers = have.MaxConsumers // cannot be changed
	if have.MaxBytes == want.MaxBytes && have.MaxMsgSize == want.MaxMsgSize && have.Replicas == want.Replicas &&
		have.MaxMsgs == want.MaxMsgs && have.MaxMsgsPerSubject == want.MaxMsgsPerSubject && have.MaxAge == want.MaxAge &&
		have.Discard == want.Discard && have.DenyDelete == want.DenyDelete && have.AllowAtomicPublish == want.AllowAtomicPublish {
		return nil
	}
	bounded, done := l.attempt(ctx)
	_, err := l.js.UpdateStream(bounded, want)
	if err := done(err); err != nil {
		return fmt.Errorf("change the bounds of stream %s: %w", StreamName, err)
	}
	return nil
}

// create creates the stream of a new epoch. With SyncAlways the server has synced the stream's
// two files and their directory when it answers; on a journalling file system their parent
// directories are then on disk too. So the first event does not outlive its stream.
func (l *Log) create(ctx context.Context, known event.Mark) (event.Mark, error) {
	epoch := eventbus.NewEpoch()
	err := l.createEmpty(ctx, epoch)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		// Another writer began it at this moment, and its log counts.
		seen, err := l.readState(ctx)
		if err != nil {
			return event.Mark{}, err
		}
		return l.takeOver(ctx, seen, known)
	}
	if err != nil {
		return event.Mark{}, fmt.Errorf("create stream %s: %w", StreamName, err)
	}
	return l.believe(newReplica(epoch), event.Before(epoch)), nil
}

// createEmpty creates the stream of an epoch, and again until it is empty. The server removes
// the files of a deleted stream in the background. If another stream of that name is deleted
// before that is done, its files stay (nats-server 2.15, fileStore.Delete), and a new one cannot be
// created or begins with the events in them.
func (l *Log) createEmpty(ctx context.Context, epoch string) error {
	bounded, done := l.attempt(ctx)
	for {
		left, err := l.createOnce(bounded, epoch)
		if !left {
			return done(err)
		}
		if !wake.Sleep(bounded, pauseBetween) {
			return fmt.Errorf("the files of the former stream are still there: %w", cmp.Or(err, done(context.Cause(bounded))))
		}
	}
}

// createOnce reports whether files of a former stream are in the way. A stream that begins
// with them is deleted again.
func (l *Log) createOnce(ctx context.Context, epoch string) (left bool, err error) {
	stream, err := l.js.CreateStream(ctx, l.streamConfig(epoch))
	if refused := (*jetstream.APIError)(nil); errors.As(err, &refused) && refused.ErrorCode == errorCreateStore {
		return true, err
	}
	if err != nil || stream.CachedInfo().State.LastSeq == 0 {
		return false, err
	}
	if err := l.js.DeleteStream(ctx, StreamName); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, err
	}
	return true, nil
}

// errorCreateStore is the server's code when it cannot create a stream's files
// (JSStreamCreateErrF).
const errorCreateStore jetstream.ErrorCode = 10049

func (l *Log) believe(r replica, tip event.Mark) event.Mark {
	l.state.Lock()
	defer l.state.Unlock()
	l.replica, l.unsure = r, false
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch = tip.Epoch
	return tip
}
