package history_test

import (
	"testing"
	"time"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/history"
	"switchyard.dev/tests/sandboxes"
)

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

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
