package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// HistoryOf implements eventbus.Reader: it asks for the first event of the key
// behind the one it has, until there is none.
func (l *Log) HistoryOf(ctx context.Context, key event.Key) ([]event.Recorded, error) {
	seen, err := l.readState(ctx)
	if err != nil {
		return nil, err
	}
	var all []event.Recorded
	for at := seen.floor; at <= seen.tip; {
		s, err := l.message(ctx, seen, at, jetstream.WithGetMsgSubject(subject(seen.epoch, key.Subject())))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("read the history of %q: %w", key, err)
		}
		r, err := eventbus.OpenEvent(s)
		if err != nil {
			return nil, err
		}
		all, at = append(all, r), s.Pos.Seq+1
	}
	return all, nil
}

// message asks the stream for the event at a place, or for another one by options.
func (l *Log) message(ctx context.Context, seen streamState, seq uint64, options ...jetstream.GetMsgOpt) (event.Stored, error) {
	bounded, done := l.attempt(ctx)
	raw, err := seen.stream.GetMsg(bounded, seq, options...)
	return received(seen, raw, done(err))
}

// newest asks the stream for the newest event on a subject.
func (l *Log) newest(ctx context.Context, seen streamState, on string) (event.Stored, error) {
	bounded, done := l.attempt(ctx)
	raw, err := seen.stream.GetLastMsgForSubject(bounded, subject(seen.epoch, on))
	return received(seen, raw, done(err))
}

// received returns the event that the stream has answered with; ErrNoLog when the stream was
// deleted.
func received(seen streamState, raw *jetstream.RawStreamMsg, err error) (event.Stored, error) {
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = eventbus.ErrNoLog
	}
	if err != nil {
		return event.Stored{}, err
	}
	return fromNATS(event.Pos{Epoch: seen.epoch, Seq: raw.Sequence}, raw.Subject, raw.Header, raw.Data), nil
}

// get reads one event. ErrDamaged when it is missing although it should be there,
// and has not been forgotten, or gone with its epoch, since the stream was seen.
func (l *Log) get(ctx context.Context, seen streamState, seq uint64) (event.Stored, error) {
	s, err := l.message(ctx, seen, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = l.missing(ctx, seen.epoch, seq)
	}
	return s, err
}

// missing returns the error for an event that was not found.
func (l *Log) missing(ctx context.Context, epoch string, seq uint64) error {
	now, err := l.readState(ctx)
	switch {
	case err != nil:
		return err
	case now.epoch != epoch:
		return epochEnded(epoch, now.epoch)
	case seq < now.floor:
		return fmt.Errorf("%w: %d is below the floor %d", eventbus.ErrGone, seq, now.floor)
	}
	return fmt.Errorf("%w: event %d is missing", eventbus.ErrDamaged, seq)
}
