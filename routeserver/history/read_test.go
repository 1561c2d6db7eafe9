package history_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/history"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/sandboxes"
	"switchyard.dev/tools/wait"
)

// eventually waits for what has to come.
var eventually = wait.Holds

// lastKey is the key of the newest event up to a place.
func lastKey(w *writer, at event.Pos) event.Key {
	for key, seq := range w.newest {
		if seq == at.Seq {
			return key
		}
	}
	return ""
}

func observedIn(t *testing.T, r event.Recorded) *factv1.WorkloadObserved {
	t.Helper()
	o, ok := r.Fact.Data.(*factv1.WorkloadObserved)
	if !ok {
		t.Fatalf("%T is no observation", r.Fact.Data)
	}
	return o
}

func TestBetweenGivesEveryEventOnceInOrder(t *testing.T) {
	w := write(t, 6)
	h := remember(t, history.Config{Log: w.store.Open()})
	from := w.append(sandboxes.Complete(0))
	tip := w.happen(1300)
	next := from.Seq
	err := h.Between(t.Context(), from, event.Pos{Epoch: tip.Epoch, Seq: 1100}, func(events []event.Recorded) error {
		for _, e := range events {
			if next++; e.Pos.Seq != next {
				t.Fatalf("event %d instead of %d", e.Pos.Seq, next)
			}
		}
		return nil
	})
	if err != nil || next != 1100 {
		t.Errorf("it ends at %d, %v", next, err)
	}
	if err := h.Between(t.Context(), tip, tip, func([]event.Recorded) error {
		t.Error("an event between a place and itself")
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestCheckpointsStayEven(t *testing.T) {
	w := write(t, 7)
	h := remember(t, history.Config{Log: w.store.Open(), Every: 10, Checkpoints: 16})
	w.append(sandboxes.Complete(0))
	tip := w.happen(3000)
	if _, err := h.At(t.Context(), tip); err != nil {
		t.Fatal(err)
	}
	// Even would be 188; each step of reading may add its own length.
	if n, farthest := h.Checkpoints(); n != 16 || farthest > 800 {
		t.Errorf("%d checkpoints, the farthest %d events apart", n, farthest)
	}
}

func TestLargeTablesAreKeptLessOften(t *testing.T) {
	w := write(t, 8)
	oldest := w.append(sandboxes.Complete(0))
	tip := w.happen(600)
	rules := w.live.Len()
	if rules < 10 {
		t.Fatalf("the table has %d rules only", rules)
	}
	for name, c := range map[string]struct{ rules, most int }{
		"room for about three tables": {3 * rules, 5}, "room for none": {1, 1},
	} {
		h := remember(t, history.Config{Log: w.store.Open(), Every: 10, CheckpointRules: c.rules})
		if err := h.Reached(t.Context(), tip); err != nil {
			t.Fatal(err)
		}
		if n, _ := h.Checkpoints(); n < 1 || n > c.most {
			t.Errorf("%s: %d checkpoints of up to %d rules", name, n, rules)
		}
		for seq := oldest.Seq; seq <= tip.Seq; seq += 50 {
			if got, err := h.At(t.Context(), event.Pos{Epoch: tip.Epoch, Seq: seq}); err != nil || got.Hash() != w.tables[seq].Hash() {
				t.Errorf("%s: version %d: %v", name, seq, err)
			}
		}
	}
}

// Concerned is held against what the log itself says, key by key, before and after
// half of it is forgotten.
func TestTheBaselinesThatAKeyConcernsAreThoseOfTheLog(t *testing.T) {
	w := write(t, 6)
	h := remember(t, history.Config{Log: w.store.Open()})
	w.happen(400)
	w.append(sandboxes.Complete(0))
	check := func(when string) {
		tip, err := w.log.Tip(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Reached(t.Context(), tip); err != nil {
			t.Fatal(err)
		}
		several := 0
		represented := declaredBaselines(t, w)
		for key := range w.newest {
			routingKey, ok := strings.CutPrefix(string(key), "key/")
			if !ok {
				continue
			}
			want := concernedByTheLog(t, w, key, represented)
			if several += len(want) / 2; !slices.Equal(h.Concerned(routingKey), want) {
				t.Errorf("%s: key %s concerns %v, not %v", when, routingKey, h.Concerned(routingKey), want)
			}
		}
		if several == 0 {
			t.Errorf("%s: no key concerns more than one baseline", when)
		}
	}
	check("at first")
	floor, _ := w.raise()
	w.happen(50)
	w.forget(floor)
	check("after the floor")
}

// concernedByTheLog returns the baselines that members of a key were observed to represent, or any key
// declares of them.
func concernedByTheLog(t *testing.T, w *writer, key event.Key, represented map[event.Key][]table.Workload) []table.Workload {
	t.Helper()
	found := map[table.Workload]bool{}
	for _, named := range declarations(t, w, key) {
		member := event.Workload(named.GetKind(), named.GetNamespace(), named.GetName())
		for _, o := range historyOf(t, w, member) {
			if said, ok := o.Fact.Data.(*factv1.WorkloadObserved); ok {
				found[table.WorkloadOf(said.GetBaseline())] = true
			}
		}
		for _, declared := range represented[member] {
			found[declared] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), table.Workload.Compare)
}

// declaredBaselines returns the baselines that keys declare of each member.
func declaredBaselines(t *testing.T, w *writer) map[event.Key][]table.Workload {
	t.Helper()
	out := map[event.Key][]table.Workload{}
	for key := range w.newest {
		for _, m := range declarations(t, w, key) {
			if member := event.Workload(m.GetKind(), m.GetNamespace(), m.GetName()); m.GetBaseline() != nil {
				out[member] = append(out[member], table.WorkloadOf(m.GetBaseline()))
			}
		}
	}
	return out
}

// declarations returns the members that a key has named, and historyOf all facts of it.
func declarations(t *testing.T, w *writer, key event.Key) (out []*factv1.Member) {
	t.Helper()
	for _, d := range historyOf(t, w, key) {
		said, _ := d.Fact.Data.(*factv1.RoutingDeclared)
		out = append(out, said.GetMembers()...)
	}
	return out
}

func historyOf(t *testing.T, w *writer, of event.Key) []event.Recorded {
	t.Helper()
	all, err := w.log.HistoryOf(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
