package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
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
		Name:              StreamName,
		Description:       "Facts about routing: the newest of each subject is the present.",
		Subjects:          []string{subject(epoch, ">")},
		Storage:           jetstream.FileStorage,
		Retention:         jetstream.LimitsPolicy,
		Replicas:          l.config.Replicas,
		MaxBytes:          l.config.MaxBytes,
		MaxMsgsPerSubject: l.config.History,
		MaxMsgSize:        eventbus.MaxEvent,
		MaxConsumers:      maxConsumers,
		// Refuse what does not fit. The other policy would drop the oldest event,
		// which may be the newest of its key.
		Discard: jetstream.DiscardNew,
		// Nothing is ever taken out of a log, only the whole log is ended.
		DenyDelete: true,
		DenyPurge:  true,
		// Single reads go to the stream's leader: a direct read may be answered
		// by a replica that is behind, and then a conflict would not resolve.
		AllowDirect:        false,
		AllowAtomicPublish: true,
		Metadata:           map[string]string{epochKey: epoch},
	}
}

// open gives the stream, its epoch and its tip; ErrNoLog when there is none.
func (l *Log) open(ctx context.Context) (jetstream.Stream, event.Pos, error) {
	bounded, done := l.attempt(ctx)
	stream, err := l.js.Stream(bounded, StreamName)
	err = done(err)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, event.Pos{}, eventbus.ErrNoLog
	}
	if err != nil {
		return nil, event.Pos{}, fmt.Errorf("look at stream %s: %w", StreamName, err)
	}
	info := stream.CachedInfo()
	epoch := info.Config.Metadata[epochKey]
	if epoch == "" {
		return nil, event.Pos{}, fmt.Errorf("stream %s has no %s in its metadata, so it is not a routing log; "+
			"give Switchyard a NATS account of its own, or rename that stream", StreamName, epochKey)
	}
	return stream, event.Pos{Epoch: epoch, Seq: info.State.LastSeq}, nil
}

// Begin implements eventbus.Log. A stream that is there keeps its epoch and gets
// the bounds that are configured now.
func (l *Log) Begin(ctx context.Context) (event.Pos, error) {
	stream, pos, err := l.open(ctx)
	if errors.Is(err, eventbus.ErrNoLog) {
		return l.create(ctx)
	}
	if err != nil {
		return event.Pos{}, err
	}
	if err := l.rebound(ctx, stream.CachedInfo().Config, pos.Epoch); err != nil {
		return event.Pos{}, err
	}
	return l.believe(pos), nil
}

// rebound brings the bounds of an existing stream to what is configured.
func (l *Log) rebound(ctx context.Context, have jetstream.StreamConfig, epoch string) error {
	want := l.streamConfig(epoch)
	if have.MaxBytes == want.MaxBytes && have.MaxMsgsPerSubject == want.MaxMsgsPerSubject &&
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

func (l *Log) create(ctx context.Context) (event.Pos, error) {
	epoch := eventbus.NewEpoch()
	bounded, done := l.attempt(ctx)
	_, err := l.js.CreateStream(bounded, l.streamConfig(epoch))
	err = done(err)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		// Somebody else began it in this moment. Theirs is the log.
		_, pos, err := l.open(ctx)
		if err != nil {
			return event.Pos{}, err
		}
		return l.believe(pos), nil
	}
	if err != nil {
		return event.Pos{}, fmt.Errorf("create stream %s: %w", StreamName, err)
	}
	return l.believe(event.Pos{Epoch: epoch}), nil
}

// Restart implements eventbus.Log. Should it fail half-way there is no log, and
// Begin begins one.
func (l *Log) Restart(ctx context.Context) (event.Pos, error) {
	if _, _, err := l.open(ctx); err != nil && !errors.Is(err, eventbus.ErrNoLog) {
		return event.Pos{}, err
	}
	bounded, done := l.attempt(ctx)
	err := done(l.js.DeleteStream(bounded, StreamName))
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return event.Pos{}, fmt.Errorf("end the log in stream %s: %w", StreamName, err)
	}
	return l.create(ctx)
}

// The server's error codes that decide what a failed publish means.
const (
	codeMessageTooLarge jetstream.ErrorCode = 10054
	codeHeaderTooLarge  jetstream.ErrorCode = 10097
	codeStoreFailed     jetstream.ErrorCode = 10077
)

// appendError says what a failed publish means to the writer.
func (l *Log) appendError(ctx context.Context, epoch string, key event.Key, err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		switch {
		case api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence,
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant:
			return fmt.Errorf("%w: %q: %s", eventbus.ErrConflict, key, api.Description)
		case api.ErrorCode == codeMessageTooLarge, api.ErrorCode == codeHeaderTooLarge:
			return fmt.Errorf("%w: the fact of %q is larger than %d bytes", eventbus.ErrRefused, key, eventbus.MaxEvent)
		case api.ErrorCode == codeStoreFailed && api.Description == maximumBytes:
			return fmt.Errorf("%w: stream %s holds %d bytes", eventbus.ErrFull, StreamName, l.config.MaxBytes)
		}
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("%w: the fact of %q is larger than the server takes", eventbus.ErrRefused, key)
	}
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		if ended := l.endedError(ctx, epoch); ended != nil {
			return ended
		}
	}
	return fmt.Errorf("append a fact of %q: %w", key, err)
}

// maximumBytes is how the server says that a stream is full.
const maximumBytes = "maximum bytes exceeded"

// endedError says how the epoch has ended; nil when it goes on, or cannot be
// seen.
func (l *Log) endedError(ctx context.Context, epoch string) error {
	_, pos, err := l.open(ctx)
	switch {
	case errors.Is(err, eventbus.ErrNoLog):
		return fmt.Errorf("%w: stream %s is gone", eventbus.ErrNoLog, StreamName)
	case err == nil && pos.Epoch != epoch:
		return fmt.Errorf("%w: it was %s, now there is %s", eventbus.ErrEpochEnded, epoch, pos.Epoch)
	}
	return nil
}
