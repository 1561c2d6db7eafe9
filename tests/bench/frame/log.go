package frame

import (
	"context"
	"log/slog"
	"os"

	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
)

// Bus is an event bus in this process, with its log on disk.
type Bus struct {
	*embedded.Server
	Log  eventbus.Log
	conn *nats.Conn
}

// OpenBus starts an event bus and opens its log. The caller closes it. Errors are written to the
// standard error, unless there is a logger.
func OpenBus(ctx context.Context, bus embedded.Config, log jetstream.Config) (b *Bus, err error) {
	if bus.Logger == nil {
		bus.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	}
	b = &Bus{}
	if b.Server, err = embedded.Start(bus); err != nil {
		return nil, err
	}
	if b.conn, err = b.Conn(ctx); err != nil {
		b.Server.Close()
		return nil, err
	}
	log.Conn, log.Logger = b.conn, bus.Logger
	if b.Log, err = jetstream.New(log); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close ends the bus. Its log stays on disk.
func (b *Bus) Close() {
	b.conn.Close()
	b.Server.Close()
}

// Writer states facts in a log as its only writer.
type Writer struct {
	Log    eventbus.Log
	newest map[event.Key]uint64
}

// Begin begins a log and states facts in it.
func Begin(ctx context.Context, log eventbus.Log, facts ...event.Fact) (*Writer, error) {
	w := &Writer{log, map[event.Key]uint64{}}
	if _, err := log.Begin(ctx, event.Mark{}); err != nil {
		return nil, err
	}
	for _, f := range facts {
		if _, err := w.State(ctx, f); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// State states a fact and returns its place in the log once it is recorded.
func (w *Writer) State(ctx context.Context, f event.Fact) (event.Pos, error) {
	mark, err := w.Log.Append(ctx, f, w.newest[f.Key])
	if err == nil {
		w.newest[f.Key] = mark.Seq
	}
	return mark.Pos, err
}
