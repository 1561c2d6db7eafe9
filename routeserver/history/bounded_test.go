package history_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/eventbus/publisher"
	"switchyard.dev/routeserver/history"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/sandboxes"
)

// controllers state what happens in a cluster, through the real writer of the
// log. The cluster's newest facts are the objects there are.
type controllers struct {
	mu sync.Mutex
	*sandboxes.Cluster
	publisher *publisher.Publisher
	witness   publisher.Witness
}

func (c *controllers) objects(context.Context) (keys []event.Key, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.Present() {
		keys = append(keys, f.Key)
	}
	return keys, nil
}

func (c *controllers) refill(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.Present() {
		go c.put(ctx, f)
	}
	return nil
}

// put states a fact until that succeeds.
func (c *controllers) put(ctx context.Context, f event.Fact) {
	for ctx.Err() == nil {
		if _, err := c.publisher.Put(ctx, f); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Load and Save make it the publisher's EpochStore.
func (c *controllers) Load(context.Context) (publisher.Witness, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.witness, nil
}

func (c *controllers) Save(_ context.Context, w publisher.Witness) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.witness = w
	return nil
}

// live folds a log as it is written, and keeps the table of each place.
type live struct {
	mu     sync.Mutex
	tables map[uint64]table.Table
	tip    uint64
}

func (l *live) run(ctx context.Context, log eventbus.Reader) error {
	cursor, err := log.Read(ctx, event.Pos{})
	if err != nil {
		return err
	}
	defer cursor.Close()
	var t table.Table
	for {
		events, err := cursor.Next(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			r, err := event.Open(e)
			if err != nil {
				return err
			}
			t = t.Apply(r)
			l.mu.Lock()
			l.tables[r.Pos.Seq], l.tip = t, r.Pos.Seq
			l.mu.Unlock()
		}
	}
}

func (l *live) reached(seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tip >= seq
}

func (l *live) at(seq uint64) table.Table {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tables[seq]
}

// The writer raises the floor again and again. Every version that is left is the
// one that there was, for who was there all the time and for who came late, and
// both draw the line at the same place.
func TestAWriterThatForgetsLeavesWholeVersions(t *testing.T) {
	store, seed := memory.NewStore(), rand.Uint64()
	c := &controllers{Cluster: sandboxes.New(seed)}
	c.Forks, c.Keys, c.Baselines = 20, 15, 5
	var err error
	if c.publisher, err = publisher.New(publisher.Config{
		Log: store.Open(), Objects: c.objects, Refill: c.refill, Epochs: c,
		Bounds: publisher.Bounds{Events: 150}, BoundsPause: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		t.Fatal(err)
	}
	runs := func(run func(context.Context) error) {
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	runs(c.publisher.Run)
	eventually(t, "the log is whole", func() bool { return c.publisher.Ready() == nil })
	oracle := &live{tables: map[uint64]table.Table{}}
	runs(func(ctx context.Context) error { return oracle.run(ctx, store.Open()) })
	present := remember(t, history.Config{Log: store.Open(), Every: 20, Checkpoints: 6})

	for n := range 1200 {
		c.mu.Lock()
		f := c.Next()
		c.mu.Unlock()
		c.put(t.Context(), f)
		if n%20 == 0 {
			eventually(t, "what is written is folded", func() bool { return oracle.reached(c.publisher.Position().Seq) })
		}
	}
	log := store.Open()
	var kept eventbus.Kept
	eventually(t, "the writer forgets", func() bool {
		kept, err = log.Kept(t.Context())
		return err == nil && kept.Floor.Seq > 200 && oracle.reached(kept.Tip.Seq)
	})
	late := remember(t, history.Config{Log: store.Open()})
	for name, h := range map[string]*history.History{"who was there": present, "who came late": late} {
		oldest, err := h.Oldest(t.Context())
		if err != nil || oldest.Pos().Seq <= kept.Floor.Seq {
			t.Fatalf("seed %d, %s: the oldest version is %v, %v", seed, name, oldest.Pos(), err)
		}
		for seq := oldest.Pos().Seq; seq <= kept.Tip.Seq; seq++ {
			got, err := h.At(t.Context(), event.Pos{Epoch: kept.Tip.Epoch, Seq: seq})
			if errors.Is(err, eventbus.ErrGone) {
				continue // the writer has gone on
			}
			if want := oracle.at(seq); err != nil || got.Hash() != want.Hash() {
				t.Fatalf("seed %d, %s: version %d: %v, %s, want %s", seed, name, seq, err, got.Hash(), want.Hash())
			}
		}
	}
	eventually(t, "both draw the line at the same place", func() bool {
		a, errA := present.Oldest(t.Context())
		b, errB := late.Oldest(t.Context())
		return errA == nil && errB == nil && a.Pos() == b.Pos()
	})
}
