package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
)

// The headers of an atomic batch: its name, the number of the message in it from
// 1, and on the last one that it is to be recorded now.
const (
	headerBatch    = "Nats-Batch-Id"
	headerNumber   = "Nats-Batch-Sequence"
	headerBatchEnd = "Nats-Batch-Commit"
)

// publish publishes facts that were sealed after the known tip, all or none: a lone one
// plainly, which is faster, several as an atomic batch. The first carries the tip, so that
// nothing is recorded when another program has written.
func (l *Log) publish(ctx context.Context, todo []sealed) error {
	bounded, done := l.attempt(ctx)
	err := l.send(bounded, todo)
	return done(err)
}

func (l *Log) send(ctx context.Context, todo []sealed) error {
	batch := ""
	if len(todo) > 1 {
		l.batches++
		batch = l.id + strconv.FormatUint(l.batches, 36)
	}
	for n, s := range todo {
		msg := toNATS(s.mark.Epoch, s.event.Message)
		if n == 0 {
			msg.Header[jetstream.ExpectedStreamHeader] = []string{StreamName}
			msg.Header[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(s.mark.Seq-1, 10)}
		}
		if batch != "" {
			msg.Header[headerBatch] = []string{batch}
			msg.Header[headerNumber] = []string{strconv.Itoa(n + 1)}
		}
		if n < len(todo)-1 {
			if err := l.config.Conn.PublishMsg(msg); err != nil {
				return l.meaning(s, err)
			}
			continue
		}
		if batch != "" {
			msg.Header[headerBatchEnd] = []string{"1"}
		}
		reply, err := l.config.Conn.RequestMsgWithContext(ctx, msg)
		if err != nil {
			return l.meaning(s, err)
		}
		return l.acknowledged(s, reply.Data)
	}
	return nil
}

// acknowledged reads the server's answer to the last message.
func (l *Log) acknowledged(last sealed, data []byte) error {
	var ack struct {
		Error    *jetstream.APIError `json:"error"`
		Sequence uint64              `json:"seq"`
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return fmt.Errorf("the answer of the event bus does not read: %w", err)
	}
	if ack.Error != nil {
		return l.meaning(last, ack.Error)
	}
	if ack.Sequence != last.mark.Seq {
		return fmt.Errorf("the event bus recorded event %d as %d", last.mark.Seq, ack.Sequence)
	}
	return nil
}

// The server's error codes that decide what a failed publish means.
const (
	codeMessageTooLarge jetstream.ErrorCode = 10054
	codeHeaderTooLarge  jetstream.ErrorCode = 10097
	codeStoreFailed     jetstream.ErrorCode = 10077
	codeAccountExceeded jetstream.ErrorCode = 10002
	codeStorageExceeded jetstream.ErrorCode = 10047
	codeBatchDisabled   jetstream.ErrorCode = 10174
	codeBatchIncomplete jetstream.ErrorCode = 10176
	codeBatchTooLarge   jetstream.ErrorCode = 10199
	codeTooManyBatches  jetstream.ErrorCode = 10210
)

// maximumBytes is the server's message that a stream is full.
const maximumBytes = "maximum bytes exceeded"

// errBatch means that the server does not accept this atomic batch.
var errBatch = errors.New("the event bus does not take the facts together")

// isCertain reports whether an error means that nothing was recorded, for a reason in the
// published facts.
func isCertain(err error) bool {
	return errors.Is(err, eventbus.ErrRefused) || errors.Is(err, eventbus.ErrFull) || errors.Is(err, errBatch)
}

// meaning returns what a failed publish means to the writer.
func (l *Log) meaning(s sealed, err error) error {
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("%w: the fact on %s is larger than the server takes", eventbus.ErrRefused, s.m.Subject)
	}
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode {
	case codeMessageTooLarge, codeHeaderTooLarge:
		return fmt.Errorf("%w: the fact on %s is larger than %d bytes", eventbus.ErrRefused, s.m.Subject, eventbus.MaxEvent)
	case codeAccountExceeded, codeStorageExceeded:
		return fmt.Errorf("%w: %s", eventbus.ErrFull, api.Description)
	case codeBatchDisabled, codeBatchIncomplete, codeBatchTooLarge, codeTooManyBatches:
		return fmt.Errorf("%w: %w", errBatch, err)
	case codeStoreFailed:
		if api.Description == maximumBytes {
			return fmt.Errorf("%w: stream %s holds %d bytes", eventbus.ErrFull, StreamName, l.config.MaxBytes)
		}
	}
	return err
}
