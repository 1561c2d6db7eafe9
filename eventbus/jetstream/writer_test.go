package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/tools/wait"
)

// way is the network between a client and the bus, which a test can break.
type way struct {
	listener net.Listener
	to       string
	// deaf lets everything through to the bus and nothing back.
	deaf  atomic.Bool
	mu    sync.Mutex
	conns []net.Conn
}

func newWay(t *testing.T, to string) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{listener: l, to: to}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.carry(from) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.cut()
		all.Wait()
	})
	return w
}

func (w *way) carry(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer to.Close()
	w.mu.Lock()
	w.conns = append(w.conns, from, to)
	w.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(to, from)
		to.Close()
	})
	both.Go(func() {
		_, _ = io.Copy(hearing{from, &w.deaf}, to)
		from.Close()
	})
	both.Wait()
}

// hearing drops writes while it is deaf.
type hearing struct {
	net.Conn
	deaf *atomic.Bool
}

func (h hearing) Write(b []byte) (int, error) {
	if h.deaf.Load() {
		return len(b), nil
	}
	return h.Conn.Write(b)
}

// cut cuts all connections; new ones can be made.
func (w *way) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// TestFactsWhoseAnswerIsLostAreRecordedOnce lets the bus record what the writer
// sends, loses the answers, and cuts the connection.
func TestFactsWhoseAnswerIsLostAreRecordedOnce(t *testing.T) {
	const appenders = 40
	b := startBus(t)
	w := newWay(t, b.listen)
	through := *b
	through.listen = w.listener.Addr().String()
	writer, conn := through.dial(t, connect.Writer)
	if _, err := writer.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	reader, _ := b.dial(t, connect.Follower)
	for round := range 3 {
		w.deaf.Store(true)
		var all sync.WaitGroup
		for i := range appenders {
			all.Go(func() {
				mark, err := writer.Append(t.Context(), logtest.Fact(fmt.Sprint("k", round, "-", i), i), 0)
				if err != nil || mark.Seq == 0 {
					t.Errorf("append: %v, %v", mark, err)
				}
			})
		}
		await(t, "the bus has recorded some", func() bool {
			tip, err := reader.Tip(t.Context())
			return err == nil && tip.Seq > uint64(round*appenders)
		})
		w.deaf.Store(false)
		w.cut()
		all.Wait()
		awaitConnected(t, conn)
	}
	recorded(t, reader, 3*appenders)
}

// await waits for a condition.
var await = wait.Holds

// recorded checks that a log holds n facts, each of another key, and is right.
func recorded(t *testing.T, log eventbus.Reader, n uint64) []event.Stored {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	kept, err := log.Kept(ctx)
	if err != nil || kept.Tip.Seq != n {
		t.Fatalf("it keeps %v, want up to %d: %v", kept, n, err)
	}
	c, err := log.Read(ctx, event.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var all []event.Stored
	v, keys := eventbus.NewVerifier(kept.Tip.Epoch, event.Mark{}), map[string]bool{}
	for uint64(len(all)) < n {
		events, err := c.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if err := v.Take(e); err != nil || keys[e.Message.Subject] {
				t.Errorf("event %d of %s, recorded before: %v: %v", e.Pos.Seq, e.Message.Subject, keys[e.Message.Subject], err)
			}
			keys[e.Message.Subject] = true
			all = append(all, e)
		}
	}
	return all
}

func TestAnAppendIsBoundedWhenTheBusDoesNotAnswer(t *testing.T) {
	b := startBus(t)
	w := newWay(t, b.listen)
	through := *b
	through.listen = w.listener.Addr().String()
	writer, _ := through.dial(t, connect.Writer)
	if _, err := writer.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	w.deaf.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := writer.Append(ctx, logtest.Fact("a", 1), 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with 50 ms of patience: %v", err)
	}
	if _, err := writer.Append(t.Context(), logtest.Fact("b", 1), 0); err == nil || errors.Is(err, eventbus.ErrConflict) {
		t.Errorf("with patience: %v", err)
	}
	w.deaf.Store(false)
	w.cut()
	// Both were left open, so each is in the log once or can be appended.
	for _, key := range []string{"a", "b"} {
		await(t, key+" is decided", func() bool {
			_, err := writer.Append(t.Context(), logtest.Fact(key, 1), 0)
			return err == nil || errors.Is(err, eventbus.ErrConflict)
		})
	}
	recorded(t, writer, 2)
}

func TestNoCommitWhenNothingWaits(t *testing.T) {
	log := open(t, jetstream.Config{Conn: inside(t, embedded.Config{})})
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			if _, err := log.Append(t.Context(), logtest.Fact(fmt.Sprint("k", i), i), 0); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	await(t, "the goroutine has ended", func() bool {
		var stacks strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
			t.Fatal(err)
		}
		return !strings.Contains(stacks.String(), "commitAll")
	})
}

func TestOfFactsThatDoNotAllFitThoseThatDoAreRecorded(t *testing.T) {
	log := open(t, jetstream.Config{Conn: inside(t, embedded.Config{}), MaxBytes: 64 << 10})
	var all sync.WaitGroup
	var fitted atomic.Uint64
	for i := range 200 {
		all.Go(func() {
			_, err := log.Append(t.Context(), logtest.Fact(fmt.Sprint("k", i), i), 0)
			switch {
			case err == nil:
				fitted.Add(1)
			case !errors.Is(err, eventbus.ErrFull):
				t.Errorf("append: %v", err)
			}
		})
	}
	all.Wait()
	if n := fitted.Load(); n < 40 || n > 150 {
		t.Errorf("%d fitted", n)
	}
	recorded(t, log, fitted.Load())
	if kept, err := log.Kept(t.Context()); err != nil || kept.MaxBytes-kept.Bytes > 2<<10 {
		t.Errorf("facts were refused while %d of %d bytes were free: %v", kept.MaxBytes-kept.Bytes, kept.MaxBytes, err)
	}
}

func TestTheTimeOfRecordingDoesNotGoBackWithTheClock(t *testing.T) {
	conn := inside(t, embedded.Config{})
	log := open(t, jetstream.Config{Conn: conn})
	tip, err := log.Tip(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, err := event.Encode(logtest.Fact("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	ahead := time.Now().Add(time.Hour)
	m, _ = event.Seal(m, event.Before(tip.Epoch), ahead)
	publish(t, conn, tip.Epoch, m)
	if _, err := log.Append(t.Context(), logtest.Fact("b", 1), 0); err != nil {
		t.Fatal(err)
	}
	again := open(t, jetstream.Config{Conn: conn})
	if _, err := again.Append(t.Context(), logtest.Fact("c", 1), 0); err != nil {
		t.Fatal(err)
	}
	for _, e := range recorded(t, log, 3) {
		if at, err := event.RecordedAt(e.Message); err != nil || !at.Equal(ahead) {
			t.Errorf("event %d was recorded at %v, want %v: %v", e.Pos.Seq, at, ahead, err)
		}
	}
}

// stray publishes an event that does not fit behind the tip.
func stray(t *testing.T, log *jetstream.Log, conn *nats.Conn, routingKey string) {
	t.Helper()
	tip, err := log.Tip(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, err := event.Encode(logtest.Fact(routingKey, 1))
	if err != nil {
		t.Fatal(err)
	}
	m, _ = event.Seal(m, event.Mark{Pos: tip}, time.Now())
	publish(t, conn, tip.Epoch, m)
}

func TestEventsThatDoNotFollowTheTipAreRejected(t *testing.T) {
	conn := inside(t, embedded.Config{})
	log := open(t, jetstream.Config{Conn: conn})
	if _, err := log.Append(t.Context(), logtest.Fact("a", 1), 0); err != nil {
		t.Fatal(err)
	}
	f, err := log.Follow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if facts, err := f.Next(ctx); err != nil || len(facts) != 1 {
		t.Fatalf("the follower gives %v, %v", facts, err)
	}
	stray(t, log, conn, "b")
	if facts, err := f.Next(ctx); !errors.Is(err, eventbus.ErrDamaged) {
		t.Errorf("the follower gives %v, %v", facts, err)
	}
	if mark, err := log.Append(t.Context(), logtest.Fact("c", 1), 0); !errors.Is(err, eventbus.ErrDamaged) {
		t.Errorf("append behind it: %v, %v", mark, err)
	}
	if tip, err := log.Tip(t.Context()); err != nil || tip.Seq != 2 {
		t.Errorf("the tip is %v: %v", tip, err)
	}
}
