package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus/connect"
)

// Records bounds the stream of the records of connections, which is no part of the log and lies
// in the same store. The oldest go first.
type Records struct {
	// Bytes bounds the records on disk, in addition to Config.MaxStore. 0: there is no such
	// stream, and requests to add records are not answered.
	Bytes int64
	// Age is how long a record is kept; 0: until there is no room.
	Age time.Duration
}

const (
	// recordsWithin bounds making the stream.
	recordsWithin = 10 * time.Second
	// maxRecord bounds one record.
	maxRecord = 16 << 10
	// duplicates is for how long a record that is sent again is known.
	duplicates = 10 * time.Minute
)

// keepRecords creates the stream of the records of connections, or updates its bounds. A
// failure does not affect the log.
func (s *Server) keepRecords(ctx context.Context, o *opened) {
	if s.config.Records.Bytes == 0 {
		return
	}
	if err := s.makeRecords(ctx, o); err != nil && ctx.Err() == nil {
		s.config.Logger.Error("cannot store the records of connections; tunnel proxies buffer records until the event bus is restarted", "error", err)
	}
}

func (s *Server) makeRecords(ctx context.Context, o *opened) error {
	conn, err := nats.Connect("", nats.InProcessServer(o.nats), nats.Name("records keeper"), nats.Token(s.recordsSecret), nats.Timeout(recordsWithin))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := natsjs.New(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, recordsWithin)
	defer cancel()
	_, err = js.CreateOrUpdateStream(ctx, natsjs.StreamConfig{
		Name: connect.RecordsStream, Subjects: []string{connect.RecordsSubject}, Description: "Connections that passed tunnel proxies.",
		MaxBytes: s.config.Records.Bytes, MaxAge: s.config.Records.Age, Discard: natsjs.DiscardOld, MaxMsgSize: maxRecord,
		Storage: natsjs.FileStorage, Duplicates: s.config.Records.duplicates(), DenyDelete: true,
	})
	if err != nil {
		return fmt.Errorf("make stream %s: %w", connect.RecordsStream, err)
	}
	return nil
}

// duplicates is no longer than a record is kept.
func (r Records) duplicates() time.Duration {
	if r.Age > 0 && r.Age < duplicates {
		return r.Age
	}
	return duplicates
}
