package publisher_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/eventbus/publisher"
)

// stores are the kinds of log that a leader must manage with. Each gives logs on
// one store, and a way to lose it.
var stores = map[string]func(t *testing.T) (open func() eventbus.Log, lose func()){
	"memory": func(*testing.T) (func() eventbus.Log, func()) {
		store := memory.NewStore()
		return func() eventbus.Log { return store.Open() }, store.Lose
	},
	"jetstream": func(t *testing.T) (func() eventbus.Log, func()) {
		b := startBus(t)
		return func() eventbus.Log { return b.open(jetstream.Config{}) }, func() {
			b.server.Close()
			if err := os.RemoveAll(b.config.StoreDir); err != nil {
				t.Fatal(err)
			}
			b.start()
		}
	},
}

var quiet = slog.New(slog.DiscardHandler)

// bus is a server that keeps its address when it is started again.
type bus struct {
	t      *testing.T
	config embedded.Config
	server *embedded.Server
	token  string
}

func startBus(t *testing.T) *bus {
	t.Helper()
	dir := t.TempDir()
	b := &bus{t: t, token: filepath.Join(dir, "token"), config: embedded.Config{
		StoreDir: filepath.Join(dir, "store"), Listen: "127.0.0.1:0", Logger: quiet,
		Authenticate: func(context.Context, string) (connect.Role, error) { return connect.Writer, nil },
	}}
	if err := os.WriteFile(b.token, []byte("any"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start()
	t.Cleanup(func() { b.server.Close() })
	b.config.Listen = b.server.Addr().String()
	return b
}

func (b *bus) start() {
	b.t.Helper()
	var err error
	if b.server, err = embedded.Start(b.config); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bus) open(bounds jetstream.Config) eventbus.Log {
	b.t.Helper()
	log, conn, err := connect.Open(connect.Config{URL: "nats://" + b.config.Listen, Role: connect.Writer, TokenFile: b.token, Logger: quiet}, bounds)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(conn.Close)
	await(b.t, "the client is connected", conn.IsConnected)
	return log
}

func eachStore(t *testing.T, test func(t *testing.T, open func() eventbus.Log, lose func())) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			open, lose := store(t)
			test(t, open, lose)
		})
	}
}

func TestALostStoreIsFilledAgainFromTheObjects(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() eventbus.Log, lose func()) {
		reader := open()
		saved := &epochs{}
		w, _ := lead(t, open(), saved, map[string]int{"a": 1})
		ready(t, w)
		expect(t, reader, "a 1", "complete first 1")
		before := saved.mark()
		w.set("a", 2) // nobody stated it yet
		lose()
		expect(t, reader, "a 2", "complete epoch 1")
		await(t, "the new epoch is saved", func() bool {
			return saved.mark().Epoch != before.Epoch
		})
	})
}

func TestObjectsDeletedWithoutALeaderAreWithdrawn(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() eventbus.Log, _ func()) {
		reader := open()
		saved := &epochs{}
		w, stop := lead(t, open(), saved, map[string]int{"a": 1})
		ready(t, w)
		w.set("b", 1)
		w.reconcile(t.Context(), "b")
		stop()
		lead(t, open(), saved, map[string]int{"b": 1})
		expect(t, reader, "b 1", "a withdrawn", "complete leader 1")
	})
}

func TestAFormerLeaderCannotOverwriteUnseen(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() eventbus.Log, _ func()) {
		reader := open()
		saved := &epochs{}
		former := open()
		w, stop := lead(t, former, saved, map[string]int{"a": 1})
		ready(t, w)
		stop() // but its last write is still under way
		lead(t, open(), saved, map[string]int{"a": 2})
		expect(t, reader, "a 2", "complete leader 1")
		if _, err := former.Append(t.Context(), logtest.Fact("a", 1), 1); err == nil {
			t.Error("it overwrote what it had not seen")
		}
	})
}

// overtaken is the log of a leader that is overtaken by another one on each write, at the last
// moment.
type overtaken struct {
	eventbus.Log
	other eventbus.Log

	mu sync.Mutex
	by []event.Fact
}

func (o *overtaken) Append(ctx context.Context, f event.Fact, last uint64) (event.Mark, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.by) > 0 && f.Key == o.by[0].Key {
		if _, err := o.other.Append(ctx, o.by[0], last); err != nil {
			return event.Mark{}, err
		}
		o.by = o.by[1:]
	}
	return o.Log.Append(ctx, f, last)
}

func TestAFormerLeaderDoesNotReplaceWhatIsNewer(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() eventbus.Log, _ func()) {
		log := &overtaken{Log: open(), other: open()}
		w, _ := lead(t, log, &epochs{}, map[string]int{"a": 1, "b": 1})
		ready(t, w)
		if _, err := log.other.Begin(t.Context(), event.Mark{}); err != nil {
			t.Fatal(err)
		}
		log.mu.Lock()
		log.by = []event.Fact{logtest.Fact("a", 7), logtest.Fact("b", 2)}
		log.mu.Unlock()
		if pos, err := w.publisher.Put(t.Context(), logtest.Fact("a", 2)); !errors.Is(err, eventbus.ErrConflict) {
			t.Errorf("a is stated at %v: %v", pos, err)
		}
		// The other leader has stated what it was about to state, too.
		if _, err := w.publisher.Put(t.Context(), logtest.Fact("b", 2)); err != nil {
			t.Error(err)
		}
		await(t, "every object is looked at again", func() bool { return w.asked() > 1 })
		history, err := log.HistoryOf(t.Context(), event.RoutingKey("a"))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range history {
			if describe(r.Fact) == "a 2" {
				t.Errorf("event %d replaces what is newer", r.Pos.Seq)
			}
		}
	})
}

func TestFactsOfAnotherWriterAreCorrected(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() eventbus.Log, _ func()) {
		w, _ := lead(t, open(), &epochs{}, map[string]int{"a": 1})
		ready(t, w)
		other := open()
		if _, err := other.Begin(t.Context(), event.Mark{}); err != nil {
			t.Fatal(err)
		}
		for _, f := range []event.Fact{logtest.Fact("a", 7), logtest.Fact("stray", 7)} {
			r, _, err := other.Newest(t.Context(), f.Key)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := other.Append(t.Context(), f, r.Pos.Seq); err != nil {
				t.Fatal(err)
			}
		}
		await(t, "both are put right", func() bool {
			got := strings.Join(read(t, other), ", ")
			return strings.Contains(got, "a 1") && strings.Contains(got, "stray withdrawn")
		})
		if n := w.asked(); n < 2 {
			t.Errorf("the objects were asked for %d times", n)
		}
	})
}

func TestARewoundLogIsRestarted(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() eventbus.Log, _ func()) {
		reader := open()
		log := open()
		pos, err := log.Begin(t.Context(), event.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), logtest.Fact("old", 1), 0); err != nil {
			t.Fatal(err)
		}
		saved := &epochs{witness: publisher.Witness{Mark: event.Mark{Pos: event.Pos{Epoch: pos.Epoch, Seq: 100}}}}
		w, _ := lead(t, open(), saved, map[string]int{"a": 1})
		ready(t, w)
		expect(t, reader, "a 1", "complete epoch 1")
		if saved.mark().Epoch == pos.Epoch {
			t.Error("the rewound log goes on under its epoch")
		}
	})
}

func TestADamagedLogIsRestarted(t *testing.T) {
	store := memory.NewStore()
	log := store.Open()
	if _, err := log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	m, err := event.Encode(logtest.Fact("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	m.Data = []byte("{")
	if _, err := store.AppendMessage(m); err != nil {
		t.Fatal(err)
	}
	w, _ := lead(t, store.Open(), &epochs{}, map[string]int{"a": 1})
	ready(t, w)
	expect(t, store.Open(), "a 1", "complete epoch 1")
}

func TestALogThatIsFullForgetsAndGoesOn(t *testing.T) {
	b := startBus(t)
	log := b.open(jetstream.Config{MaxBytes: 32 << 10})
	w, _ := lead(t, log, &epochs{}, map[string]int{"a": 1, "b": 1})
	ready(t, w)
	first, err := log.Tip(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := 2; n < 100; n++ {
		w.set("a", n)
		w.reconcile(t.Context(), "a")
	}
	ready(t, w)
	if now, err := log.Tip(t.Context()); err != nil || now.Epoch != first.Epoch {
		t.Errorf("the log is at %v after %v: %v", now, first, err)
	}
	got := strings.Join(read(t, log), ", ")
	for _, want := range []string{"a 99", "b 1"} {
		if !strings.Contains(got, want) {
			t.Errorf("the log says %s", got)
		}
	}
	if kept, err := log.Kept(t.Context()); err != nil || kept.Floor.Seq < 2 {
		t.Errorf("it keeps %+v: %v", kept, err)
	}
}

func TestMissedFactsAreRequestedOnceTheBusIsBack(t *testing.T) {
	b := startBus(t)
	log := b.open(jetstream.Config{})
	w, _ := lead(t, log, &epochs{}, map[string]int{"a": 1})
	ready(t, w)
	before, err := log.Tip(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.server.Close()
	w.set("a", 2)
	if _, err := w.publisher.Put(t.Context(), logtest.Fact("a", 2)); !errors.Is(err, publisher.ErrAway) {
		t.Errorf("Put while the bus is away: %v", err)
	}
	b.start()
	// No controller states it by itself: a refill is requested.
	expect(t, log, "complete first 1", "a 2")
	if now, err := log.Tip(t.Context()); err != nil || now != (event.Pos{Epoch: before.Epoch, Seq: before.Seq + 1}) {
		t.Errorf("the log is at %v after %v: %v", now, before, err)
	}
}
