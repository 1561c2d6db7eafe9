package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/eventbus/publisher"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// small are bounds under which a floor is due after a few events.
var small = publisher.Bounds{Events: 16}

// bounded makes a publisher the leader, with small bounds.
func bounded(t *testing.T, log eventbus.Log, saved *epochs, objects map[string]int) (*world, func()) {
	t.Helper()
	return leadWith(t, publisher.Config{Log: log, Epochs: saved, Bounds: small, BoundsPause: 5 * time.Millisecond}, objects)
}

// fold reads all that the log keeps as a new reader does, verifies it, and returns its content:
// routing keys to numbers. whole is false when no Complete covers all of it.
func fold(t *testing.T, log eventbus.Reader) (says map[string]string, whole bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	kept, err := log.Kept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cursor, err := log.Read(ctx, event.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	defer cursor.Close()
	verifier := eventbus.NewVerifier(kept.Tip.Epoch, event.Mark{})
	says = map[string]string{}
	var first uint64
	for at := uint64(0); at < kept.Tip.Seq; {
		events, err := cursor.Next(ctx)
		if errors.Is(err, eventbus.ErrGone) {
			return nil, false // It was forgotten while it was read.
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if err := verifier.Take(e); err != nil {
				t.Fatal(err)
			}
			if at = e.Pos.Seq; first == 0 {
				first = at
			}
			r, err := event.Open(e)
			if err != nil {
				t.Fatal(err)
			}
			switch d := r.Fact.Data.(type) {
			case *factv1.RoutingDeclared:
				says[d.GetRoutingKey()] = d.GetMembers()[0].GetSandbox()
			case *factv1.RoutingWithdrawn:
				delete(says, d.GetRoutingKey())
			case *factv1.Complete:
				whole = whole || d.GetFloor() >= first || d.GetFloor() == 0 && first == 1
			}
		}
	}
	return says, whole
}

// mortal is a log with a writer that crashes at a certain write after it was armed: before the
// write or, with late, after it and before the writer gets the answer.
type mortal struct {
	eventbus.Log
	late bool

	mu    sync.Mutex
	of    string // which writes count; "" for all
	left  int    // -1: not armed
	dead  bool
	wrote string // what the last write was
}

var errDead = errors.New("the writer has died")

// write makes one write.
func (m *mortal) write(what string, make func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errDead
	}
	counts := m.of == "" || m.of == what
	if m.left == 0 && counts {
		m.dead, m.wrote = true, what
		if m.late {
			return errors.Join(errDead, make())
		}
		return errDead
	}
	if m.left > 0 && counts {
		m.left--
	}
	return make()
}

// arm makes the writer die at one of the writes from now on.
func (m *mortal) arm(d death) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of, m.left, m.late = d.of, d.nth, d.late
}

// death is when a writer dies: at its nth write, counted from 0, of a kind, or of
// any when of is empty.
type death struct {
	of   string
	nth  int
	late bool
}

func (d death) String() string { return fmt.Sprintf("%s %d, late %t", d.of, d.nth, d.late) }

func (m *mortal) died() (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wrote, m.dead
}

func (m *mortal) Append(ctx context.Context, f event.Fact, last uint64) (mark event.Mark, err error) {
	err = m.write(fmt.Sprintf("%T", f.Data), func() error {
		mark, err = m.Log.Append(ctx, f, last)
		return err
	})
	return mark, err
}

func (m *mortal) Forget(ctx context.Context, floor event.Pos) error {
	return m.write("forget", func() error { return m.Log.Forget(ctx, floor) })
}

// TestALeaderThatDiesAtAnyWriteLeavesNothingWrong lets a leader die at each of
// its writes through four floors and the forgetting of the first, and sees what a
// reader has then, and what the next leader makes of it. Where starting the store
// takes long, it dies only at two writes of each kind, from the fourth floor on.
func TestALeaderThatDiesAtAnyWriteLeavesNothingWrong(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() eventbus.Log, lose func()) {
		var deaths []death
		for _, late := range []bool{false, true} {
			for nth := range 48 {
				deaths = append(deaths, death{"", nth, late})
			}
		}
		if strings.HasSuffix(t.Name(), "jetstream") {
			deaths = nil
			for of, from := range map[string]int{"*factv1.Floor": 3, "*factv1.Complete": 3, "*factv1.RoutingDeclared": 24, "forget": 0} {
				for i := range 4 {
					deaths = append(deaths, death{of, from + i%2, i >= 2})
				}
			}
		}
		seen := map[string]bool{}
		for _, d := range deaths {
			lose()
			seen[dieAt(t, open, d)] = true
		}
		for _, what := range []string{"*factv1.Floor", "*factv1.Complete", "*factv1.RoutingDeclared", "forget"} {
			if !seen[what] {
				t.Errorf("no leader died at a write of %s, but at %v", what, seen)
			}
		}
	})
}

// due reports whether the log is due for a step.
func due(t *testing.T, log eventbus.Log) bool {
	t.Helper()
	h := publisher.History{}
	var err error
	if h.Kept, err = log.Kept(t.Context()); err != nil {
		t.Fatal(err)
	}
	floors, err := log.HistoryOf(t.Context(), event.LogFloor)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range floors {
		h.Floors = append(h.Floors, publisher.Floor{Seq: r.Pos.Seq, At: r.At})
	}
	last, _, err := log.Newest(t.Context(), event.Log)
	if err != nil {
		t.Fatal(err)
	}
	h.Whole = last.Fact.Data.(*factv1.Complete).GetFloor()
	says, _ := fold(t, log)
	h.Live = uint64(len(says))
	return publisher.Plan(h, small, time.Now()) != publisher.Step{}
}

func dieAt(t *testing.T, open func() eventbus.Log, d death) (wrote string) {
	t.Helper()
	saved, reader := &epochs{}, open()
	objects := map[string]int{"a": 0, "b": 0, "c": 0}
	log := &mortal{Log: open(), left: -1}
	w, stop := bounded(t, log, saved, maps.Clone(objects))
	ready(t, w)
	before, err := reader.Tip(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log.arm(d)
	var under string
	for n := 1; ; n++ {
		if wrote, dead := log.died(); dead {
			under = wrote
			break
		}
		name := []string{"a", "b"}[n%2] // c never changes
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := w.publisher.Put(ctx, logtest.Fact(name, n))
		cancel()
		if err == nil {
			objects[name] = n
		} else if _, dead := log.died(); !dead {
			t.Fatalf("Put: %v", err)
		}
		await(t, "what is due was done", func() bool {
			_, dead := log.died()
			return dead || !due(t, reader)
		})
	}
	stop()

	says, whole := fold(t, reader)
	if !whole {
		t.Errorf("dead at %s (%s): the log is not whole", d, under)
	}
	for name, n := range objects {
		// The last Put may or may not have been recorded.
		if got := says[name]; got != fmt.Sprint(n) && (!d.late || got == "" || name == "c") {
			t.Errorf("dead at %s (%s): %s is at %q, not at %d", d, under, name, got, n)
		}
	}

	objects["d"] = 1
	next, stopNext := bounded(t, open(), saved, maps.Clone(objects))
	defer stopNext()
	ready(t, next)
	await(t, "the next leader has forgotten something", func() bool {
		objects["d"]++
		next.set("d", objects["d"])
		next.reconcile(t.Context(), "d")
		kept, err := reader.Kept(t.Context())
		return err == nil && kept.Floor.Seq > before.Seq
	})
	await(t, fmt.Sprintf("dead at %s (%s): the log says what is true", d, under), func() bool {
		says, whole := fold(t, reader)
		want := map[string]string{}
		for name, n := range objects {
			want[name] = fmt.Sprint(n)
		}
		return whole && maps.Equal(says, want)
	})
	if now, err := reader.Tip(t.Context()); err != nil || now.Epoch != before.Epoch {
		t.Errorf("dead at %s (%s): the log has begun anew: %v", d, under, err)
	}
	return under
}

func TestTheLogKeepsWhatIsPromisedWhileFactsAreStated(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() eventbus.Log, _ func()) {
		reader := open()
		objects := map[string]int{}
		for n := range 5 {
			objects[fmt.Sprint("still-", n)] = 7
		}
		w, _ := bounded(t, open(), &epochs{}, objects)
		ready(t, w)
		var all sync.WaitGroup
		for writer := range 8 {
			all.Go(func() {
				for n := range 40 {
					if _, err := w.publisher.Put(t.Context(), logtest.Fact(fmt.Sprint("busy-", writer), n)); err != nil {
						t.Errorf("Put: %v", err)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		for going := true; going; {
			select {
			case <-done:
				going = false
			default:
			}
			kept, err := reader.Kept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if kept.Floor.Seq > 1 && kept.Tip.Seq+1-kept.Floor.Seq < small.Events {
				t.Fatalf("it keeps %+v", kept)
			}
		}
		last := 39
		await(t, "what is more than promised is forgotten", func() bool {
			last++
			if _, err := w.publisher.Put(t.Context(), logtest.Fact("busy-0", last)); err != nil {
				t.Fatal(err)
			}
			kept, err := reader.Kept(t.Context())
			return err == nil && kept.Floor.Seq > 1 && kept.Tip.Seq-kept.Floor.Seq < 6*small.Events
		})
		says, whole := fold(t, reader)
		if !whole || len(says) != 13 || says["still-0"] != "7" || says["busy-0"] != fmt.Sprint(last) {
			t.Errorf("whole %t: %v", whole, says)
		}
	})
}

func TestFactsAreStatedAgainAsTheyWere(t *testing.T) {
	store := memory.NewStore()
	reader := store.Open()
	w, _ := bounded(t, store.Open(), &epochs{}, map[string]int{})
	ready(t, w)
	old := logtest.Fact("old", 1)
	if _, err := w.publisher.Put(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for _, f := range []event.Fact{logtest.Fact("gone", 1), logtest.Withdrawn("gone")} {
		if _, err := w.publisher.Put(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	await(t, "the first statement is forgotten", func() bool {
		n++
		if _, err := w.publisher.Put(t.Context(), logtest.Fact("new", n)); err != nil {
			t.Fatal(err)
		}
		kept, err := reader.Kept(t.Context())
		return err == nil && kept.Floor.Seq > 10
	})
	r, ok, err := reader.Newest(t.Context(), old.Key)
	if err != nil || !ok || !event.Same(r.Fact, old) || r.Fact.Cause != old.Cause || !r.Fact.Time.Equal(old.Time) {
		t.Errorf("%+v, %t, %v", r, ok, err)
	}
	if r, ok, err := reader.Newest(t.Context(), event.RoutingKey("gone")); err != nil || ok {
		t.Errorf("a tombstone was stated again: %+v, %v", r, err)
	}
	// A forgotten key can be stated again.
	if _, err := w.publisher.Put(t.Context(), logtest.Fact("gone", 2)); err != nil {
		t.Error(err)
	}
}

// TestALeadersCompleteSpeaksForALogThatBeginsWithAFloor: a reader who begins with
// the floor must not take the Complete of a leader that came before the floor was
// whole for more than it is.
func TestALeadersCompleteSpeaksForALogThatBeginsWithAFloor(t *testing.T) {
	store, saved := memory.NewStore(), &epochs{}
	reader := store.Open()
	w, stop := bounded(t, store.Open(), saved, map[string]int{"a": 1})
	ready(t, w)
	n := 1
	await(t, "the log begins with a floor", func() bool {
		n++
		if _, err := w.publisher.Put(t.Context(), logtest.Fact("a", n)); err != nil {
			t.Fatal(err)
		}
		kept, err := reader.Kept(t.Context())
		return err == nil && kept.Floor.Seq > 1
	})
	stop()
	last, _, err := reader.Newest(t.Context(), event.Log)
	if err != nil {
		t.Fatal(err)
	}
	floor := last.Fact.Data.(*factv1.Complete).GetFloor()
	lead(t, store.Open(), saved, map[string]int{"a": n})
	var said *factv1.Complete
	await(t, "the next leader says Complete", func() bool {
		all, err := reader.HistoryOf(t.Context(), event.Log)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if c := r.Fact.Data.(*factv1.Complete); c.GetReason() == "leader" {
				said = c
			}
		}
		return said != nil
	})
	if floor == 0 || said.GetFloor() < floor {
		t.Errorf("its Complete is %v, and the one before named floor %d", said, floor)
	}
	await(t, "the log is whole", func() bool { _, whole := fold(t, reader); return whole })
}

func TestAFloorThatAnotherProgramCannotReadPastIsNotStated(t *testing.T) {
	store := memory.NewStore()
	log := store.Open()
	w, _ := bounded(t, log, &epochs{}, map[string]int{"a": 1})
	ready(t, w)
	m, err := event.Encode(logtest.Fact("newer", 1))
	if err != nil {
		t.Fatal(err)
	}
	m.Header["ce-type"] = "dev.switchyard.routing.declared.v2"
	if _, err := store.AppendMessage(m); err != nil {
		t.Fatal(err)
	}
	await(t, "it was read", func() bool { return w.publisher.Position().Seq >= 3 })
	for n := range 100 {
		if _, err := w.publisher.Put(t.Context(), logtest.Fact("b", n)); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := log.Kept(t.Context()); err != nil || kept.Floor.Seq != 1 {
		t.Errorf("%+v, %v", kept, err)
	}
}

func TestALogWithoutRoomForFactsReportsIt(t *testing.T) {
	b := startBus(t)
	log := b.open(jetstream.Config{MaxBytes: 16 << 10})
	objects := map[string]int{}
	for n := range 60 {
		objects[fmt.Sprint("n", n)] = 1
	}
	w, _ := lead(t, log, &epochs{}, objects)
	await(t, "an epoch ended because it was full", func() bool { return w.publisher.Status().Ended[publisher.EndedFull] > 0 })
	if w.publisher.Ready() == nil {
		t.Error("the log is said to be whole")
	}
}
