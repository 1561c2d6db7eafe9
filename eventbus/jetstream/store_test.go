package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
)

// inside returns a connection to a server in this process.
func inside(t testing.TB, c embedded.Config) *nats.Conn {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	if c.StoreDir == "" {
		c.StoreDir = filepath.Join(t.TempDir(), "store")
	}
	s, err := embedded.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	conn, err := s.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func open(t testing.TB, c jetstream.Config) *jetstream.Log {
	t.Helper()
	log, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Begin(context.Background(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	return log
}

func TestAFullLogRefusesAndKeepsWhatItHas(t *testing.T) {
	conn := inside(t, embedded.Config{})
	log := open(t, jetstream.Config{Conn: conn, MaxBytes: 64 << 10})
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		_, err = log.Append(t.Context(), logtest.Fact(fmt.Sprint("k", n), n), 0)
	}
	if !errors.Is(err, eventbus.ErrFull) || n < 10 {
		t.Fatalf("fact %d: %v", n, err)
	}
	if r, ok, err := log.Newest(t.Context(), event.RoutingKey("k0")); err != nil || !ok || r.Pos.Seq != 1 {
		t.Errorf("the first fact is %v, %v, %v", r, ok, err)
	}
	// With more room it goes on, under the same epoch.
	before, err := log.Tip(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wider := open(t, jetstream.Config{Conn: conn, MaxBytes: 128 << 10})
	if mark, err := wider.Append(t.Context(), logtest.Fact("more", 1), 0); err != nil || mark.Pos != (event.Pos{Epoch: before.Epoch, Seq: before.Seq + 1}) {
		t.Errorf("with more room: %v, %v after %v", mark.Pos, err, before)
	}
	// And a new epoch has all the room.
	if _, err := log.Restart(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), logtest.Fact("more", 1), 0); err != nil {
		t.Error(err)
	}
}

// The server moves the files of a deleted stream to a directory with a dot before its name, and
// cannot while those of an earlier one are still there.
func TestRestartWaitsUntilTheFormerFilesAreRemoved(t *testing.T) {
	b := startBus(t)
	log := b.open(t)
	if _, err := log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), logtest.Fact("before", 1), 0); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(b.dir, "store", "*", "*", "streams", jetstream.StreamName))
	if err != nil || len(files) != 1 {
		t.Fatalf("the stream's files are in %v: %v", files, err)
	}
	former := filepath.Join(filepath.Dir(files[0]), "."+jetstream.StreamName)
	if err := os.MkdirAll(filepath.Join(former, "msgs"), 0o700); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() {
		if err := os.RemoveAll(former); err != nil {
			t.Error(err)
		}
	})
	if _, err := log.Restart(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if at, err := log.Append(t.Context(), logtest.Fact("after", 1), 0); err != nil || at.Seq != 1 {
		t.Errorf("the first event of the new epoch is at %v: %v", at, err)
	}
}

func TestAStreamOfAnotherOwnerIsLeftAlone(t *testing.T) {
	conn := inside(t, embedded.Config{})
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: jetstream.StreamName, Subjects: []string{"trains.>"}}); err != nil {
		t.Fatal(err)
	}
	log, err := jetstream.New(jetstream.Config{Conn: conn})
	if err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"Begin":   func() error { _, err := log.Begin(t.Context(), event.Mark{}); return err },
		"Restart": func() error { _, err := log.Restart(t.Context(), ""); return err },
		"Tip":     func() error { _, err := log.Tip(t.Context()); return err },
	} {
		if err := do(); err == nil || errors.Is(err, eventbus.ErrNoLog) || !strings.Contains(err.Error(), "not a routing log") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := js.Stream(t.Context(), jetstream.StreamName); err != nil {
		t.Errorf("the stream is gone: %v", err)
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	conn := inside(t, embedded.Config{})
	for what, c := range map[string]jetstream.Config{
		"no connection": {}, "six replicas": {Conn: conn, Replicas: 6}, "negative bytes": {Conn: conn, MaxBytes: -1},
	} {
		if _, err := jetstream.New(c); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// rewind takes the bus back to how its store was when the function that it gives
// is called, as a restored volume would.
func (b *bus) rewind(t *testing.T) func() {
	t.Helper()
	store, copied := filepath.Join(b.dir, "store"), filepath.Join(b.dir, "copy")
	b.kill(t)
	if err := os.CopyFS(copied, os.DirFS(store)); err != nil {
		t.Fatal(err)
	}
	b.start(t)
	return func() {
		b.kill(t)
		if err := os.RemoveAll(store); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(copied, store); err != nil {
			t.Fatal(err)
		}
		b.start(t)
	}
}

func TestAFollowerNoticesThatItsLogWasRewound(t *testing.T) {
	for name, again := range map[string]int{"and nothing was written since": 0, "and written further than before": 9} {
		t.Run(name, func(t *testing.T) {
			b := startBus(t)
			writer, conn := b.dial(t, connect.Writer)
			if _, err := writer.Begin(t.Context(), event.Mark{}); err != nil {
				t.Fatal(err)
			}
			write := func(from, n int) {
				awaitConnected(t, conn)
				for i := from; i < from+n; i++ {
					if _, err := writer.Append(t.Context(), logtest.Fact(fmt.Sprint("k", i), i), 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			write(0, 2)
			rewind := b.rewind(t)
			write(2, 4)
			reader, _ := b.dial(t, connect.Follower)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			f, err := reader.Follow(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for seen := 0; seen < 6; {
				facts, err := f.Next(ctx)
				if err != nil {
					t.Fatal(err)
				}
				seen += len(facts)
			}
			rewind()
			awaitConnected(t, conn)
			if _, err := writer.Begin(t.Context(), event.Mark{}); err != nil {
				t.Fatal(err)
			}
			write(100, again)
			if facts, err := f.Next(ctx); !errors.Is(err, eventbus.ErrEpochEnded) {
				t.Errorf("the follower of a rewound log gets %v, %v", facts, err)
			}
		})
	}
}
