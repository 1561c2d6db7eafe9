package event_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// sealed returns a log of the facts, one second apart.
func sealed(t testing.TB, epoch string, facts ...event.Fact) []event.Stored {
	t.Helper()
	last := event.Before(epoch)
	var out []event.Stored
	for n, f := range facts {
		m, err := event.Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 11, 21, 14, 3, n, 0, time.UTC)
		m, last = event.Seal(m, last, at)
		out = append(out, event.Stored{Pos: last.Pos, Message: m})
	}
	return out
}

func declared(key string) event.Fact {
	return event.Fact{
		Key: event.RoutingKey(key), Time: time.Unix(1, 0).UTC(), Cause: event.Cause{Manager: "kubectl"},
		Data: &factv1.RoutingDeclared{RoutingKey: key},
	}
}

var floor = event.Fact{Key: event.LogFloor, Data: &factv1.Floor{Reason: "count"}}

func TestASealedEventHasItsTimeAndPredecessor(t *testing.T) {
	log := sealed(t, "e", declared("a"), declared("b"))
	last := event.Before("e")
	for n, s := range log {
		mark, err := event.Check(s, last.Chain)
		if err != nil {
			t.Fatal(err)
		}
		r, err := event.Open(s)
		if err != nil {
			t.Fatal(err)
		}
		if want := time.Date(2026, 11, 21, 14, 3, n, 0, time.UTC); !r.At.Equal(want) {
			t.Errorf("event %d was recorded at %v, not %v", n, r.At, want)
		}
		if r.Mark() != mark || mark.Pos != (event.Pos{Epoch: "e", Seq: uint64(n + 1)}) {
			t.Errorf("event %d has the mark %v, checked as %v", n, r.Mark(), mark)
		}
		last = mark
	}
}

func TestAnEventIsOnlyItselfWhereItWasRecorded(t *testing.T) {
	log := sealed(t, "e", declared("a"), declared("b"), declared("c"))
	elsewhere := sealed(t, "f", declared("a"), declared("b"), declared("c"))
	chain := func(s event.Stored) event.Chain {
		c, err := event.ChainOf(s.Message)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	cases := map[string]struct {
		event event.Stored
		last  event.Chain
		want  error
	}{
		"behind the one before it":       {log[1], chain(log[0]), nil},
		"behind another one":             {log[1], chain(log[2]), event.ErrAltered},
		"behind the same one of another": {log[1], chain(elsewhere[0]), event.ErrAltered},
		"at another place":               {event.Stored{Pos: event.Pos{Epoch: "e", Seq: 3}, Message: log[1].Message}, chain(log[0]), event.ErrAltered},
		"without a checksum":             {without(log[1], "ce-chain"), chain(log[0]), event.ErrUnsealed},
		"with other data":                {changed(log[1], func(m *event.Message) { m.Data = []byte(`{}`) }), chain(log[0]), event.ErrAltered},
		"on another subject":             {changed(log[1], func(m *event.Message) { m.Subject += "x" }), chain(log[0]), event.ErrAltered},
		"recorded at another time":       {changed(log[1], func(m *event.Message) { m.Header["ce-recordedtime"] = "2026-11-21T14:03:00Z" }), chain(log[0]), event.ErrAltered},
		"caused by somebody else":        {changed(log[1], func(m *event.Message) { m.Header["ce-causemanager"] = "mallory" }), chain(log[0]), event.ErrAltered},
		"with an attribute more":         {changed(log[1], func(m *event.Message) { m.Header["ce-note"] = "" }), chain(log[0]), event.ErrAltered},
		"with a header of the transport": {changed(log[1], func(m *event.Message) { m.Header["Nats-Batch-Id"] = "1" }), chain(log[0]), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := event.Check(c.event, c.last); !errors.Is(err, c.want) {
				t.Errorf("%v, not %v", err, c.want)
			}
		})
	}
}

func TestALogBeginsWithItsFirstEventOrWithAFloor(t *testing.T) {
	log := sealed(t, "e", declared("a"), floor, declared("b"))
	for n, want := range []error{nil, nil, event.ErrUnsealed} {
		if _, err := event.CheckFirst(log[n]); !errors.Is(err, want) {
			t.Errorf("event %d: %v, not %v", n+1, err, want)
		}
	}
	altered := changed(log[1], func(m *event.Message) { m.Header["ce-previous"] = event.Genesis("e").String() })
	if _, err := event.CheckFirst(altered); !errors.Is(err, event.ErrAltered) {
		t.Errorf("a floor that names another event before it: %v", err)
	}
	pretender := changed(log[2], func(m *event.Message) { m.Header["ce-previous"] = log[1].Message.Header["ce-chain"] })
	if _, err := event.CheckFirst(pretender); !errors.Is(err, event.ErrUnsealed) {
		t.Errorf("an event that only says it is a floor: %v", err)
	}
}

// Whatever single byte of a log changes, the first event that it is in does not
// check any more.
func TestNoByteOfALogCanChangeUnseen(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		log := sealed(t, "e", declared("a"), floor, declared("b"), declared("c"))
		n := rapid.IntRange(0, len(log)-1).Draw(r, "event")
		damaged := changed(log[n], func(m *event.Message) {
			fields := slices.Sorted(maps.Keys(m.Header))
			field := rapid.SampledFrom(append(fields, "data", "subject")).Draw(r, "field")
			switch field {
			case "data":
				m.Data = flip(r, m.Data)
			case "subject":
				m.Subject = string(flip(r, []byte(m.Subject)))
			default:
				m.Header[field] = string(flip(r, []byte(m.Header[field])))
			}
		})
		last := event.Genesis("e")
		if n > 0 {
			last, _ = event.ChainOf(log[n-1].Message)
		}
		mark, err := event.Check(damaged, last)
		if err == nil {
			t.Fatalf("event %d reads as %v: %v", n, mark, damaged)
		}
	})
}

func flip(r *rapid.T, b []byte) []byte {
	out := slices.Clone(b)
	out[rapid.IntRange(0, len(out)-1).Draw(r, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(r, "bit")
	return out
}

func changed(s event.Stored, change func(*event.Message)) event.Stored {
	s.Message.Header = maps.Clone(s.Message.Header)
	change(&s.Message)
	return s
}

func without(s event.Stored, header string) event.Stored {
	return changed(s, func(m *event.Message) { delete(m.Header, header) })
}
