package explain_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/explain"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/sandboxes"
)

// happenings returns what a random cluster states, at places from 1 on.
func happenings(seed uint64, n int) []event.Recorded {
	c := sandboxes.New(seed)
	c.Forks, c.Keys, c.Baselines = 20, 12, 5
	out := make([]event.Recorded, n)
	for i := range out {
		out[i] = event.Recorded{Pos: event.Pos{Epoch: "e", Seq: uint64(i + 1)}, Fact: c.Next()}
	}
	return out
}

func lookup(t table.Table, c table.Change) *table.Rule {
	r, _ := t.Lookup(c.Baseline, c.RoutingKey)
	return r
}

func TestTheCausesAreTheEventsThatChangedTheDecision(t *testing.T) {
	for range 40 {
		seed := rand.Uint64()
		events := happenings(seed, 400)
		tables := []table.Table{{}}
		for _, e := range events {
			tables = append(tables, tables[len(tables)-1].Apply(e))
		}
		from := rand.IntN(300)
		to := from + rand.IntN(len(events)-from)
		causes := explain.NewCauses(tables[from], table.Diff(tables[from], tables[to]))
		causes.Take(events[from:to]...)
		for _, c := range causes.Changes() {
			var want []uint64
			for _, e := range events[from:to] {
				if !lookup(tables[e.Pos.Seq-1], c.Change).Equal(lookup(tables[e.Pos.Seq], c.Change)) {
					want = append(want, e.Pos.Seq)
				}
			}
			if len(want) == 0 || !slices.Equal(sequences(c.Because), want) {
				t.Fatalf("seed %d, %d to %d, %v under %s: because %v, want %v", seed, from, to, c.Baseline, c.RoutingKey, sequences(c.Because), want)
			}
		}
	}
}

// The events of the keys that decisions depend on are enough: those of all
// others change nothing.
func TestTheHistoriesOfSomeKeysGiveTheSameCauses(t *testing.T) {
	for range 40 {
		seed := rand.Uint64()
		events := happenings(seed, 400)
		from := uint64(rand.IntN(300))
		older := table.Table{}.Apply(events[:from]...)
		changes := table.Diff(older, older.Apply(events[from:]...))
		if len(changes) == 0 {
			continue
		}
		changes = changes[:1]
		of := func(keys ...event.Key) (out []event.Recorded) {
			for _, e := range events {
				if slices.Contains(keys, e.Fact.Key) {
					out = append(out, e)
				}
			}
			return out
		}
		key := event.RoutingKey(changes[0].RoutingKey)
		some := of(append(explain.Keys(of(key), from), key)...)
		some = slices.DeleteFunc(some, func(e event.Recorded) bool { return e.Pos.Seq <= from })
		whole, few := explain.NewCauses(older, changes), explain.NewCauses(older, changes)
		whole.Take(events[from:]...)
		few.Take(some...)
		if diff := cmp.Diff(sequences(whole.Changes()[0].Because), sequences(few.Changes()[0].Because)); diff != "" {
			t.Fatalf("seed %d, from %d, %s: %s", seed, from, key, diff)
		}
	}
}

func sequences(events []event.Recorded) []uint64 {
	var out []uint64
	for _, e := range events {
		out = append(out, e.Pos.Seq)
	}
	return out
}

func TestNoMoreCausesAreNamedThanPeopleRead(t *testing.T) {
	events := []event.Recorded{{Pos: event.Pos{Epoch: "e", Seq: 1}, Fact: declared("k", "a")}}
	for seq := range uint64(200) {
		o := observed("a", "cart")
		o.Ready = seq%2 == 0
		events = append(events, event.Recorded{Pos: event.Pos{Epoch: "e", Seq: seq + 2}, Fact: fact(o)})
	}
	older := table.Table{}.Apply(events[:1]...)
	causes := explain.NewCauses(older, table.Diff(older, older.Apply(events[1:]...)))
	causes.Take(events[1:]...)
	because := sequences(causes.Changes()[0].Because)
	if len(because) != explain.MaxCauses || because[len(because)-1] != 201 {
		t.Errorf("%d are named, the last is %d", len(because), because[len(because)-1])
	}
}
