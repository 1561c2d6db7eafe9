// Package records sends the records of connections (tunnels/audit) to their stream on the event
// bus, in addition to the log, which has them all.
//
// Each record is a message of JSON, and is acknowledged once it is on the disk of the bus. A
// record without an acknowledgement is sent again, while the proxy runs and audit keeps it. The
// bus drops duplicates by the record's id for ten minutes; after a longer outage of the bus a
// record may be there twice, with the same id. The client is a Recorder, which may add to the
// stream and do nothing else.
package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/tunnels/audit"
)

const (
	// ackWithin is how long the bus has to acknowledge a record.
	ackWithin = 5 * time.Second
	// underway is how many are sent without an acknowledgement.
	underway = 256
)

// Stream is an audit.Sink.
type Stream struct {
	conn *nats.Conn
	js   jetstream.JetStream
}

// Open returns a Stream, which connects to the bus in the background. An audit.Log closes it.
func Open(bus connect.Config) (*Stream, error) {
	bus.Role = connect.Recorder
	conn, err := connect.Dial(bus)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(underway), jetstream.WithPublishAsyncTimeout(ackWithin))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("records of connections: %w", err)
	}
	return &Stream{conn, js}, nil
}

// Append implements audit.Sink.
func (s *Stream) Append(ctx context.Context, records []audit.Record) error {
	if !s.conn.IsConnected() {
		return errors.New("the event bus is not connected")
	}
	sent := make([]jetstream.PubAckFuture, 0, len(records))
	for _, r := range records {
		text, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("record of connection %s: %w", r.ID, err)
		}
		m := nats.NewMsg(connect.RecordsSubject)
		m.Data = text
		ack, err := s.js.PublishMsgAsync(m, jetstream.WithMsgID(id(r)))
		if err != nil {
			return fmt.Errorf("send records of connections to the event bus: %w", err)
		}
		sent = append(sent, ack)
	}
	for _, ack := range sent {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return fmt.Errorf("the event bus has not taken a record of a connection: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// id is the message's ID: a connection has a first record and a last one.
func id(r audit.Record) string {
	if r.End != nil {
		return r.ID + "/end"
	}
	return r.ID
}

// Close ends the connection to the bus.
func (s *Stream) Close() error {
	s.conn.Close()
	return nil
}
