package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/eventbus/publisher"
)

// tipMark returns the Mark with which the log ends.
func tipMark(t *testing.T, log eventbus.Reader) event.Mark {
	t.Helper()
	cursor, err := log.Read(t.Context(), event.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	defer cursor.Close()
	tip, err := log.Tip(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var mark event.Mark
	for mark.Seq < tip.Seq {
		events, err := cursor.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last := events[len(events)-1]
		if mark.Chain, err = event.ChainOf(last.Message); err != nil {
			t.Fatal(err)
		}
		mark.Pos = last.Pos
	}
	return mark
}

// ledOnce returns a store that a leader has written and left in the ordinary way.
func ledOnce(t *testing.T) (*memory.Store, *epochs) {
	t.Helper()
	store, saved := memory.NewStore(), &epochs{}
	w, stop := lead(t, store.Open(), saved, map[string]int{"a": 1})
	ready(t, w)
	for n := 2; n < 6; n++ {
		if _, err := w.publisher.Put(t.Context(), logtest.Fact("a", n)); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	return store, saved
}

func TestAPlannedEndLeavesTheExactMark(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() eventbus.Log, _ func()) {
		saved := &epochs{}
		w, stop := lead(t, open(), saved, map[string]int{"a": 1})
		ready(t, w)
		for n := 2; n < 6; n++ {
			if _, err := w.publisher.Put(t.Context(), logtest.Fact("a", n)); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		if got, want := saved.mark(), tipMark(t, open()); got != want {
			t.Errorf("saved is %v, and the log ends at %v", got, want)
		}
	})
}

func TestTheMarkIsSavedSoonAfterAFact(t *testing.T) {
	store, saved := memory.NewStore(), &epochs{}
	w, _ := lead(t, store.Open(), saved, map[string]int{"a": 1})
	ready(t, w)
	if _, err := w.publisher.Put(t.Context(), logtest.Fact("a", 2)); err != nil {
		t.Fatal(err)
	}
	await(t, "it is saved", func() bool { return saved.mark() == tipMark(t, store.Open()) })
}

func TestAStoreThatIsNotTheSameIsBegunAnewLoudly(t *testing.T) {
	rewrite := func(from uint64) func(*testing.T, *memory.Store) {
		return func(t *testing.T, store *memory.Store) {
			tip, err := store.Open().Tip(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			store.Rewind(event.Before(tip.Epoch))
			for seq := uint64(1); seq <= tip.Seq; seq++ {
				n := 1
				if seq >= from {
					n = 666
				}
				m, err := event.Encode(logtest.Fact("a", n))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := store.AppendMessage(m); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	tests := []struct {
		name   string
		happen func(t *testing.T, store *memory.Store)
		says   string
	}{
		{"an event was altered", func(_ *testing.T, s *memory.Store) {
			s.Damage(3, func(m *event.Message) { m.Header["ce-causename"] = "somebody else" })
		}, "event 3"},
		{"the last event is missing", func(t *testing.T, s *memory.Store) {
			cursor, err := s.Open().Read(t.Context(), event.Pos{})
			if err != nil {
				t.Fatal(err)
			}
			events, err := cursor.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			last := events[len(events)-2]
			chain, err := event.ChainOf(last.Message)
			if err != nil {
				t.Fatal(err)
			}
			s.Rewind(event.Mark{Pos: last.Pos, Chain: chain})
		}, "rewound"},
		{"it was written anew, as long and with checksums that fit", rewrite(2), "not the one that is known"},
		{"it was lost", func(_ *testing.T, s *memory.Store) { s.Lose() }, "lost"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store, saved := ledOnce(t)
			before := saved.mark()
			tt.happen(t, store)
			w, stop := lead(t, store.Open(), saved, map[string]int{"a": 1})
			ready(t, w)
			expect(t, store.Open(), "a 1", "complete epoch 1")
			status := w.publisher.Status()
			if n := status.Ended[publisher.EndedDamaged] + status.Ended[publisher.EndedLost]; n != 1 {
				t.Errorf("epochs that ended: %v", status.Ended)
			}
			stop()
			now, _ := saved.Load(t.Context())
			if now.Mark.Epoch == before.Epoch || now.Before != before.Epoch || now.Since.IsZero() || !strings.Contains(now.Ended, tt.says) {
				t.Errorf("saved is %+v", now)
			}
		})
	}
}

func TestAWitnessOfAnOlderVersionIsEnough(t *testing.T) {
	store, saved := ledOnce(t)
	saved.witness = publisher.Witness{Mark: event.Mark{Pos: saved.mark().Pos}}
	before := saved.mark().Epoch
	w, _ := lead(t, store.Open(), saved, map[string]int{"a": 5})
	ready(t, w)
	if got := w.publisher.Position().Epoch; got != before {
		t.Errorf("epoch %s became %s", before, got)
	}
}

// deposed is the log of a leader that finds it damaged just when another leader, which found
// the same, has begun it again.
type deposed struct {
	eventbus.Log
	other eventbus.Log
	once  sync.Once
	begun event.Mark // the other leader's epoch
}

func (d *deposed) Begin(ctx context.Context, known event.Mark) (event.Mark, error) {
	err := errors.New("begun before")
	d.once.Do(func() {
		tip, _ := d.Tip(ctx)
		if d.begun, err = d.other.Restart(ctx, tip.Epoch); err == nil {
			err = eventbus.ErrDamaged
		}
	})
	if errors.Is(err, eventbus.ErrDamaged) {
		return event.Mark{}, err
	}
	return d.Log.Begin(ctx, known)
}

func TestADeposedLeaderEndsNoEpochButItsOwn(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() eventbus.Log, _ func()) {
		first := open()
		if _, err := first.Begin(t.Context(), event.Mark{}); err != nil {
			t.Fatal(err)
		}
		log := &deposed{Log: open(), other: open()}
		w, _ := lead(t, log, &epochs{}, map[string]int{"a": 1})
		ready(t, w)
		if tip, err := open().Tip(t.Context()); err != nil || tip.Epoch != log.begun.Epoch {
			t.Errorf("the other leader's epoch %s has ended: %v, %v", log.begun.Epoch, tip, err)
		}
		if n := w.publisher.Status().Ended[publisher.EndedDamaged]; n != 0 {
			t.Errorf("it counts %d epochs that it ended", n)
		}
	})
}

// returning is a log that is not there when it is first asked for its tip, and is
// back, damaged, a moment later.
type returning struct {
	eventbus.Log
	once sync.Once
}

func (r *returning) Tip(ctx context.Context) (pos event.Pos, err error) {
	r.once.Do(func() { err = eventbus.ErrNoLog })
	if err != nil {
		return event.Pos{}, err
	}
	return r.Log.Tip(ctx)
}

func TestADamagedLogThatWasNotThereAMomentAgoIsBegunAnew(t *testing.T) {
	store, saved := ledOnce(t)
	before := saved.mark().Epoch
	store.Damage(2, func(m *event.Message) { m.Data = []byte("{}") })
	w, _ := lead(t, &returning{Log: store.Open()}, saved, map[string]int{"a": 1})
	ready(t, w)
	if now := w.publisher.Position().Epoch; now == before {
		t.Errorf("the damaged epoch %s goes on", now)
	}
}

func TestOneObjectThatCannotBeStatedDoesNotHoldBackTheOthersForEver(t *testing.T) {
	store, saved := memory.NewStore(), &epochs{}
	objects := map[string]int{"broken": 1}
	for n := range 12 {
		objects[fmt.Sprint("fine-", n)] = 1
	}
	w, stop := lead(t, store.Open(), saved, objects)
	ready(t, w)
	stop()
	w, _ = leadWith(t, publisher.Config{Log: store.Open(), Epochs: saved, Patience: 50 * time.Millisecond}, objects, "broken")
	reader := store.Open()
	await(t, "the new leader says Complete", func() bool {
		return strings.Contains(strings.Join(read(t, reader), ", "), "complete leader")
	})
	if got := strings.Join(read(t, reader), ", "); !strings.Contains(got, "broken 1") {
		t.Errorf("what was said of the broken one is gone: %s", got)
	}
	if got := w.publisher.Status().Unsettled; len(got) != 1 || got[0] != event.RoutingKey("broken") {
		t.Errorf("unsettled are %v", got)
	}
}

func TestManyObjectsAreWaitedForLongerThanOne(t *testing.T) {
	store := memory.NewStore()
	objects := map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}
	began := time.Now()
	w, _ := leadWith(t, publisher.Config{Log: store.Open(), Epochs: &epochs{}, Patience: 100 * time.Millisecond}, objects, "b", "c")
	ready(t, w)
	if waited := time.Since(began); waited < time.Second {
		t.Errorf("it waited for %s", waited)
	}
}

func TestALogIsNotCalledWholeWhenNothingWasStated(t *testing.T) {
	store := memory.NewStore()
	w, _ := leadWith(t, publisher.Config{Log: store.Open(), Epochs: &epochs{}, Patience: time.Millisecond}, map[string]int{"a": 1}, "a")
	began := time.Now()
	await(t, "its patience is long over", func() bool { return time.Since(began) > 300*time.Millisecond })
	if w.publisher.Ready() == nil {
		t.Error("the log is said to be whole, and no object is in it")
	}
}
