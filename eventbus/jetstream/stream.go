package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
)

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
