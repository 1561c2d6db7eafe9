package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

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

const (
	// StreamName is the name of the stream.
	StreamName = "ROUTING"
	// Subjects matches everything that a log is ever written to.
	Subjects = subjectPrefix + ">"

	subjectPrefix = "routing."
	// epochKey is the key of the epoch in the stream's metadata.
	epochKey = "switchyard.dev/epoch"
	// MaxConsumers bounds the readers, and those that were lost and not yet
	// swept away.
	MaxConsumers = 1024
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
		MaxConsumers: MaxConsumers,
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
		// Never acknowledge before the event is on disk.
		PersistMode: jetstream.DefaultPersistMode,
		Metadata:    map[string]string{epochKey: epoch},
	}
}

// streamState is the state of the stream at a moment.
type streamState struct {
	stream jetstream.Stream
	info   *jetstream.StreamInfo
	epoch  string
	// floor is the sequence of the first event, one behind tip when there is none.
	floor, tip uint64
}

// readState reads the state of the stream; ErrNoLog when there is none.
func (l *Log) readState(ctx context.Context) (streamState, error) {
	bounded, done := l.attempt(ctx)
	stream, err := l.js.Stream(bounded, StreamName)
	for err == nil && !ofLeader(stream.CachedInfo().Cluster) {
		if !wake.Sleep(bounded, pauseBetween) {
			return streamState{}, fmt.Errorf("read the state of stream %s: the server that answered is not its leader; %w", StreamName, done(context.Cause(bounded)))
		}
		stream, err = l.js.Stream(bounded, StreamName)
	}
	err = done(err)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return streamState{}, eventbus.ErrNoLog
	}
	if err != nil {
		return streamState{}, fmt.Errorf("read the state of stream %s: %w", StreamName, err)
	}
	info := stream.CachedInfo()
	epoch := info.Config.Metadata[epochKey]
	if epoch == "" {
		return streamState{}, fmt.Errorf("stream %s has no %s in its metadata, so it is not a routing log; "+
			"give Switchyard a NATS account of its own, or rename that stream", StreamName, epochKey)
	}
	seen := streamState{stream: stream, info: info, epoch: epoch, floor: info.State.FirstSeq, tip: info.State.LastSeq}
	if info.State.Msgs == 0 {
		seen.floor = seen.tip + 1
	}
	return seen, nil
}

// ofLeader reports whether the answer came from the leader of the stream. Another server
// answers too if the stream is new or has no leader, and may not have the newest events yet, so
// that a log would seem rewound. A server does not list itself among the replicas, so the
// leader's name is there when another one answers.
func ofLeader(c *jetstream.ClusterInfo) bool {
	if c == nil {
		return true // the server has no cluster
	}
	return c.Leader != "" && !slices.ContainsFunc(c.Replicas, func(r *jetstream.PeerInfo) bool { return r.Name == c.Leader })
}

// epochEnded is the error of one who believes in an epoch when there is another.
func epochEnded(was, now string) error {
	return fmt.Errorf("%w: it was %s, now there is %s", eventbus.ErrEpochEnded, was, now)
}

// Restart implements eventbus.Log. If it fails half-way there is no log, and Begin begins one.
// The server deletes a stream by its name and not by its epoch: of two writers that end the
// same epoch at once, the slower may delete the log that the other has just begun. That one
// gets ErrEpochEnded and the log is filled again.
func (l *Log) Restart(ctx context.Context, epoch string) (event.Mark, error) {
	seen, err := l.readState(ctx)
	if err != nil && !errors.Is(err, eventbus.ErrNoLog) {
		return event.Mark{}, err
	}
	if err == nil && epoch != "" && seen.epoch != epoch {
		return event.Mark{}, epochEnded(epoch, seen.epoch)
	}
	bounded, done := l.attempt(ctx)
	err = done(l.js.DeleteStream(bounded, StreamName))
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return event.Mark{}, fmt.Errorf("end the log in stream %s: %w", StreamName, err)
	}
	return l.create(ctx, event.Mark{})
}
