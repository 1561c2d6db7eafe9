package memory_test

import (
	"testing"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/memory"
)

func TestMemoryIsALog(t *testing.T) {
	logtest.Run(t, func(*testing.T) logtest.Store {
		store := memory.NewStore()
		return logtest.Store{
			Open: func(*testing.T) eventbus.Log { return store.Open() },
			AppendMessage: func(t *testing.T, m event.Message) {
				if _, err := store.AppendMessage(m); err != nil {
					t.Fatal(err)
				}
			},
			Lose:   func(*testing.T) { store.Lose() },
			Damage: func(_ *testing.T, seq uint64, change func(*event.Message)) { store.Damage(seq, change) },
			Rewind: func(_ *testing.T, to event.Mark) { store.Rewind(to) },
		}
	})
}

func TestARewoundStoreKnowsWhatItHas(t *testing.T) {
	store := memory.NewStore()
	log := store.Open()
	if _, err := log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	first, err := log.Append(t.Context(), logtest.Fact("a", 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	for key, last := range map[string]uint64{"a": 1, "b": 0} {
		if _, err := log.Append(t.Context(), logtest.Fact(key, 2), last); err != nil {
			t.Fatal(err)
		}
	}
	store.Rewind(first)
	if r, ok, err := log.Newest(t.Context(), event.RoutingKey("a")); err != nil || !ok || r.Mark() != first {
		t.Errorf("the newest fact of a is %v, %t, %v", r, ok, err)
	}
	if r, ok, err := log.Newest(t.Context(), event.RoutingKey("b")); err != nil || ok {
		t.Errorf("the newest fact of b is %v, %v", r, err)
	}
}

func BenchmarkAppend(b *testing.B) {
	log := memory.New()
	if _, err := log.Begin(b.Context(), event.Mark{}); err != nil {
		b.Fatal(err)
	}
	var last uint64
	for n := range b.N {
		pos, err := log.Append(b.Context(), logtest.Fact("a", n), last)
		if err != nil {
			b.Fatal(err)
		}
		last = pos.Seq
	}
}

func BenchmarkFollow(b *testing.B) {
	log := memory.New()
	if _, err := log.Begin(b.Context(), event.Mark{}); err != nil {
		b.Fatal(err)
	}
	logtest.BenchmarkFollow(b, log)
}
