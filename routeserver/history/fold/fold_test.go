package fold_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/routeserver/history/fold"
	"switchyard.dev/tests/sandboxes"
)

// stored writes facts into a log and reads it as it was written.
func stored(t *testing.T, facts ...event.Fact) []event.Stored {
	t.Helper()
	log := memory.New()
	if _, err := log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	if err := logtest.Put(t.Context(), log, facts...); err != nil {
		t.Fatal(err)
	}
	cursor, err := log.Read(t.Context(), event.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	defer cursor.Close()
	var out []event.Stored
	for len(out) < len(facts) {
		events, err := cursor.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, events...)
	}
	return out
}

func happenings(n int) []event.Fact {
	cluster := sandboxes.New(11)
	var facts []event.Fact
	for range n {
		facts = append(facts, cluster.Next())
	}
	return facts
}

func TestTheSameEventsGiveTheSameBytesInAnyParts(t *testing.T) {
	events := stored(t, happenings(600)...)
	want, err := rebuild(events, 0)
	if err != nil {
		t.Fatal(err)
	}
	if want.Table().Len() == 0 {
		t.Fatal("the events make no rules")
	}
	for _, part := range []int{1, 2, 99} {
		var got fold.Fold
		for chunk := range slices.Chunk(events, part) {
			if got, err = got.Take(chunk...); err != nil {
				t.Fatal(err)
			}
		}
		if got.Mark() != want.Mark() || fold.Text(got.Table()) != fold.Text(want.Table()) {
			t.Errorf("in parts of %d the table is another one", part)
		}
	}
}

func TestRebuildStopsAtAPlace(t *testing.T) {
	events := stored(t, happenings(50)...)
	got, err := rebuild(events, 20)
	if err != nil || got.Mark().Seq != 20 {
		t.Fatalf("it ends at %d, %v", got.Mark().Seq, err)
	}
	if at, err := event.RecordedAt(events[19].Message); err != nil || !got.Recorded().Equal(at) {
		t.Errorf("recorded %v, want %v", got.Recorded(), at)
	}
	if _, err := rebuild(events, 51); err == nil {
		t.Error("a place that is not in the log is taken for one")
	}
}

func TestEventsWithoutPredecessorAreRejected(t *testing.T) {
	events := stored(t, happenings(30)...)
	changed := func(change func([]event.Stored) []event.Stored) []event.Stored { return change(slices.Clone(events)) }
	for name, log := range map[string][]event.Stored{
		"a missing event":   changed(func(e []event.Stored) []event.Stored { return slices.Delete(e, 10, 11) }),
		"a missing start":   changed(func(e []event.Stored) []event.Stored { return e[1:] }),
		"two events turned": changed(func(e []event.Stored) []event.Stored { e[4], e[5] = e[5], e[4]; return e }),
		"another value": changed(func(e []event.Stored) []event.Stored {
			e[7].Message.Data = append(slices.Clone(e[7].Message.Data), ' ')
			return e
		}),
	} {
		if _, err := rebuild(log, 0); err == nil {
			t.Errorf("%s is not noticed", name)
		}
	}
	if _, err := rebuild(events[1:], 0); !errors.Is(err, event.ErrUnsealed) {
		t.Errorf("a log that does not begin where logs begin: %v", err)
	}
}

func TestWholeness(t *testing.T) {
	facts := happenings(10)
	from := func(first int, facts ...event.Fact) []event.Stored { return stored(t, facts...)[first:] }
	for name, c := range map[string]struct {
		events []event.Stored
		whole  bool
	}{
		"without a Complete nothing is":                                 {from(0, facts...), false},
		"since the log began, after the first Complete":                 {from(0, append(facts, sandboxes.Complete(0))...), true},
		"since the log began, after a Complete that names a floor":      {from(0, append(facts, sandboxes.Floor(), sandboxes.Complete(11))...), true},
		"since a floor, after the Complete that names it":               {from(10, append(facts, sandboxes.Floor(), sandboxes.Complete(11))...), true},
		"since a floor, after a Complete that names no floor":           {from(10, append(facts, sandboxes.Floor(), sandboxes.Complete(0))...), false},
		"since a floor, after a Complete that names an older floor":     {from(10, append(facts, sandboxes.Floor(), sandboxes.Complete(5))...), false},
		"since a floor, after a Complete that names a floor behind it":  {from(10, append(facts, sandboxes.Floor(), sandboxes.Floor(), sandboxes.Complete(12))...), true},
		"since a floor, a later Complete that names none takes nothing": {from(10, append(facts, sandboxes.Floor(), sandboxes.Complete(11), sandboxes.Complete(0))...), true},
	} {
		got, err := rebuild(c.events, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Whole() != c.whole {
			t.Errorf("%s: whole is %v", name, got.Whole())
		}
	}
}

// rebuild takes the events of a stored log up to and with the one at sequence
// upTo; 0 takes all. An error means that an event is damaged or missing.
func rebuild(events []event.Stored, upTo uint64) (fold.Fold, error) {
	if upTo > 0 {
		n := 0
		for n < len(events) && events[n].Pos.Seq <= upTo {
			n++
		}
		if n == 0 || events[n-1].Pos.Seq != upTo {
			return fold.Fold{}, fmt.Errorf("there is no event %d in this log", upTo)
		}
		events = events[:n]
	}
	return fold.Fold{}.Take(events...)
}
