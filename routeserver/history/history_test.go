package history_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/eventbus/projection"
	"switchyard.dev/routeserver/explain"
	"switchyard.dev/routeserver/history"
	"switchyard.dev/routeserver/history/fold"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/sandboxes"
)

// writer writes a log, and remembers the table at each place by folding what it
// writes: the dumb form of a history.
type writer struct {
	t     *testing.T
	store *memory.Store
	log   eventbus.Log
	*sandboxes.Cluster
	newest map[event.Key]uint64
	live   table.Table
	tables map[uint64]table.Table
	times  map[uint64]time.Time
}

func write(t *testing.T, seed uint64) *writer {
	t.Helper()
	store := memory.NewStore()
	w := &writer{
		t: t, store: store, log: store.Open(), Cluster: sandboxes.New(seed), newest: map[event.Key]uint64{},
		tables: map[uint64]table.Table{}, times: map[uint64]time.Time{},
	}
	if _, err := w.log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *writer) append(f event.Fact) event.Pos {
	w.t.Helper()
	mark, err := w.log.Append(w.t.Context(), f, w.newest[f.Key])
	if err != nil {
		w.t.Fatal(err)
	}
	w.newest[f.Key] = mark.Seq
	w.live = w.live.Apply(event.Recorded{Pos: mark.Pos, Fact: f})
	w.tables[mark.Seq] = w.live
	recorded, _, err := w.log.Newest(w.t.Context(), f.Key)
	if err != nil {
		w.t.Fatal(err)
	}
	w.times[mark.Seq] = recorded.At
	return mark.Pos
}

func (w *writer) happen(events int) (last event.Pos) {
	w.t.Helper()
	for range events {
		last = w.append(w.Next())
	}
	return last
}

// raise does what the writer of a log does to forget: a Floor, everything again,
// a Complete that names it.
func (w *writer) raise() (floor, complete event.Pos) {
	w.t.Helper()
	floor = w.append(sandboxes.Floor())
	for i, f := range w.Present() {
		if i == 10 {
			// A new leader has found all there since the log began; not since here.
			w.append(sandboxes.Complete(0))
		}
		w.append(f)
	}
	return floor, w.append(sandboxes.Complete(floor.Seq))
}

func (w *writer) forget(floor event.Pos) {
	w.t.Helper()
	if err := w.log.Forget(w.t.Context(), floor); err != nil {
		w.t.Fatal(err)
	}
}

func remember(t *testing.T, cfg history.Config) *history.History {
	t.Helper()
	cfg.Retry = projection.Retry{Min: time.Millisecond, Max: time.Millisecond}
	h, err := history.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, h.Run)
	return h
}

func TestAnyVersionIsTheOneThatThereWas(t *testing.T) {
	for _, every := range []int{1, 7, 100, 100_000} {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("a checkpoint each %d events, seed %d", every, seed), func(t *testing.T) {
			w := write(t, seed)
			h := remember(t, history.Config{Log: w.store.Open(), Every: every, Checkpoints: 5, Recent: 1})
			w.happen(50)
			oldest := w.append(sandboxes.Complete(0))
			tip := w.happen(1000)
			for range 30 {
				pos := event.Pos{Epoch: tip.Epoch, Seq: oldest.Seq + rand.Uint64N(tip.Seq-oldest.Seq+1)}
				got, err := h.At(t.Context(), pos)
				if err != nil {
					t.Fatalf("version %d: %v", pos.Seq, err)
				}
				want := w.tables[pos.Seq]
				if got.Pos() != pos || got.Hash() != want.Hash() || fold.Text(got) != fold.Text(want) {
					t.Fatalf("version %d is at %v with %s, want %s", pos.Seq, got.Pos(), got.Hash(), want.Hash())
				}
			}
			if n, _ := h.Checkpoints(); n > 5 {
				t.Errorf("%d checkpoints are kept, more than 5", n)
			}
		})
	}
}

func TestTheTableOfAMoment(t *testing.T) {
	w := write(t, 1)
	h := remember(t, history.Config{Log: w.store.Open()})
	w.happen(20)
	oldest := w.append(sandboxes.Complete(0))
	tip := w.happen(200)
	for seq := oldest.Seq; seq <= tip.Seq; seq += 9 {
		// Of events recorded at one moment the newest counts.
		want := seq
		for want < tip.Seq && !w.times[want+1].After(w.times[seq]) {
			want++
		}
		got, err := h.AtTime(t.Context(), w.times[seq])
		if err != nil || got.Pos().Seq != want || got.Hash() != w.tables[want].Hash() {
			t.Fatalf("at the moment of %d: version %d, %v, want %d", seq, got.Pos().Seq, err, want)
		}
		if seq > oldest.Seq && w.times[seq].After(w.times[seq-1]) {
			got, err := h.AtTime(t.Context(), w.times[seq].Add(-1))
			if err != nil || got.Pos().Seq != seq-1 {
				t.Fatalf("just before the moment of %d: version %d, %v", seq, got.Pos().Seq, err)
			}
		}
	}
	if got, err := h.AtTime(t.Context(), w.times[tip.Seq].Add(time.Hour)); err != nil || got.Pos() != tip {
		t.Errorf("after the newest event: %v, %v", got.Pos(), err)
	}
	wantGone(t, "before the oldest version", func() error {
		_, err := h.AtTime(t.Context(), w.times[1].Add(-time.Second))
		return err
	}, oldest)
	if at, ok := h.RecordedAt(tip); !ok || !at.Equal(w.times[tip.Seq]) {
		t.Errorf("the newest event was recorded at %v, %v", at, ok)
	}
}

func wantGone(t *testing.T, what string, ask func() error, oldest event.Pos) {
	t.Helper()
	err := ask()
	var g *history.Gone
	if !errors.Is(err, eventbus.ErrGone) || !errors.As(err, &g) || g.Oldest != oldest || g.Recorded.IsZero() {
		t.Errorf("%s: %v, want that it is gone and that %d is the oldest", what, err, oldest.Seq)
	}
}

func TestOlderVersionsAreGone(t *testing.T) {
	w := write(t, 2)
	h := remember(t, history.Config{Log: w.store.Open(), Every: 10})
	w.happen(100)
	first := w.append(sandboxes.Complete(0))
	at := func(h *history.History, pos event.Pos) func() error {
		return func() error {
			_, err := h.At(t.Context(), pos)
			return err
		}
	}
	before := func(pos event.Pos) event.Pos { return event.Pos{Epoch: pos.Epoch, Seq: pos.Seq - 1} }
	wantGone(t, "before the first Complete", at(h, before(first)), first)

	w.happen(300)
	floor, complete := w.raise()
	tip := w.happen(300)
	if err := at(h, first)(); err != nil {
		t.Errorf("the first version, before it is forgotten: %v", err)
	}
	w.forget(floor)
	late := remember(t, history.Config{Log: w.store.Open()})
	for name, h := range map[string]*history.History{"who was there all the time": h, "who came later": late} {
		wantGone(t, name+": the first version", at(h, first), complete)
		wantGone(t, name+": the version before it is whole again", at(h, before(complete)), complete)
		for _, seq := range []uint64{complete.Seq, complete.Seq + 1, tip.Seq - 5, tip.Seq} {
			got, err := h.At(t.Context(), event.Pos{Epoch: tip.Epoch, Seq: seq})
			if err != nil || got.Hash() != w.tables[seq].Hash() {
				t.Errorf("%s: version %d: %v, hash %s, want %s", name, seq, err, got.Hash(), w.tables[seq].Hash())
			}
		}
		if oldest, err := h.Oldest(t.Context()); err != nil || oldest.Pos() != complete {
			t.Errorf("%s: the oldest version is %v, %v", name, oldest.Pos(), err)
		}
		wantGone(t, name+": the events before the floor", func() error {
			return h.Between(t.Context(), first, tip, func([]event.Recorded) error { return nil })
		}, complete)
	}
	if err := at(h, event.Pos{Epoch: tip.Epoch, Seq: tip.Seq + 1})(); !errors.Is(err, history.ErrNotReached) {
		t.Errorf("behind the tip: %v", err)
	}
}

func TestAnotherEpochIsReportedAsGone(t *testing.T) {
	w := write(t, 3)
	h := remember(t, history.Config{Log: w.store.Open()})
	w.happen(30)
	old := w.append(sandboxes.Complete(0))
	if _, err := h.At(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if _, err := w.log.Restart(t.Context(), old.Epoch); err != nil {
		t.Fatal(err)
	}
	w.live, w.newest = table.Table{}, map[event.Key]uint64{}
	w.happen(20)
	oldest := w.append(sandboxes.Complete(0))
	if got, err := h.At(t.Context(), oldest); err != nil || got.Hash() != w.live.Hash() {
		t.Errorf("the table of the new epoch: %v", err)
	}
	_, err := h.At(t.Context(), old)
	var g *history.Gone
	if !errors.Is(err, eventbus.ErrEpochEnded) || !errors.As(err, &g) || !g.OtherEpoch || g.Oldest != oldest {
		t.Errorf("a version of the old epoch: %v", err)
	}
}

func TestALogThatWasCutAndWrittenAgainIsReadAgain(t *testing.T) {
	w := write(t, 4)
	h := remember(t, history.Config{Log: w.store.Open(), Every: 5})
	w.happen(20)
	complete := w.append(sandboxes.Complete(0))
	mark, _, err := w.log.Newest(t.Context(), event.Log)
	if err != nil {
		t.Fatal(err)
	}
	tip := w.happen(50)
	if _, err := h.At(t.Context(), tip); err != nil {
		t.Fatal(err)
	}
	w.store.Rewind(mark.Mark())
	if _, err := h.At(t.Context(), tip); !errors.Is(err, history.ErrNotReached) {
		t.Errorf("a version behind the cut: %v", err)
	}
	eventually(t, "the past is that of the cut log", func() bool {
		at, ok := h.RecordedAt(complete)
		_, more := h.RecordedAt(tip)
		return ok && !more && at.Equal(w.times[complete.Seq])
	})
}

func TestPlacesAndMembersAreThoseOfTheVersion(t *testing.T) {
	w := write(t, 5)
	h := remember(t, history.Config{Log: w.store.Open()})
	w.append(sandboxes.Complete(0))
	var observed event.Pos
	for observed.Seq == 0 {
		f := w.Next()
		pos := w.append(f)
		if len(h.MembersOf(table.Workload{})) != 0 {
			t.Fatal("a baseline without a name has members")
		}
		if f.Type() == event.TypeWorkloadObserved {
			observed = pos
		}
	}
	if _, err := h.At(t.Context(), observed); err != nil {
		t.Fatal(err)
	}
	all, err := h.Of(t.Context(), lastKey(w, observed), observed)
	if err != nil || len(all) != 1 {
		t.Fatalf("the history of the member: %v, %v", all, err)
	}
	o := observedIn(t, all[0])
	baseline := table.Workload{Kind: o.GetBaseline().GetKind(), Namespace: o.GetBaseline().GetNamespace(), Name: o.GetBaseline().GetName()}
	if members := h.MembersOf(baseline); len(members) != 1 || members[0] != all[0].Fact.Key {
		t.Errorf("the members of %v: %v", baseline, members)
	}
	want := explain.Place{Namespace: "shop", Service: baseline.Name, Port: 80, Baseline: baseline, WorkloadPort: 8080}
	for name, d := range map[string]explain.Destination{
		"by its long name":  {Service: baseline.Name, Namespace: "shop"},
		"by its short name": {Service: baseline.Name},
	} {
		if got := h.Places(d, observed); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if got := h.Places(explain.Destination{Service: baseline.Name}, event.Pos{Epoch: observed.Epoch, Seq: observed.Seq - 1}); got != nil {
		t.Errorf("before it was observed: %v", got)
	}
	if got := h.Places(explain.Destination{Service: baseline.Name, Namespace: "other"}, observed); got != nil {
		t.Errorf("in another namespace: %v", got)
	}
}
