package history

import (
	"strings"
	"testing"
	"time"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

func stored(epoch string, seq uint64, size int) event.Stored {
	return event.Stored{Pos: event.Pos{Epoch: epoch, Seq: seq}, Message: event.Message{Subject: strings.Repeat("s", size)}}
}

func TestTheTailReturnsEventsAfterAPosition(t *testing.T) {
	var at tail
	for seq := uint64(10); seq < 1010; seq++ {
		at.add([]event.Stored{stored("a", seq, 1)})
	}
	for name, c := range map[string]struct {
		pos         event.Pos
		first, many int
		atEnd       bool
	}{
		"the first":         {pos: event.Pos{Epoch: "a", Seq: 9}, first: 10, many: pieceEvents},
		"the middle":        {pos: event.Pos{Epoch: "a", Seq: 500}, first: 501, many: pieceEvents},
		"less than a piece": {pos: event.Pos{Epoch: "a", Seq: 1007}, first: 1008, many: 2},
		"the end":           {pos: event.Pos{Epoch: "a", Seq: 1009}, atEnd: true},
		"before it":         {pos: event.Pos{Epoch: "a", Seq: 8}},
		"behind it":         {pos: event.Pos{Epoch: "a", Seq: 1010}},
		"another epoch":     {pos: event.Pos{Epoch: "b", Seq: 500}},
	} {
		got, atEnd := at.behind(c.pos)
		if len(got) != c.many || atEnd != c.atEnd || len(got) > 0 && got[0].Pos.Seq != uint64(c.first) {
			t.Errorf("%s: %d events, at the end: %t", name, len(got), atEnd)
		}
	}
}

func TestAPieceIsBounded(t *testing.T) {
	for name, c := range map[string]struct{ events, size, want int }{
		"many small ones":    {512, 10, pieceEvents},
		"large ones":         {512, 64 << 10, pieceBytes / (64 << 10)},
		"one that is larger": {2, 2 * pieceBytes, 1},
		"nothing":            {},
	} {
		var events []event.Stored
		for seq := range c.events {
			events = append(events, stored("a", uint64(seq), c.size))
		}
		if got := pieceOf(events); len(got) != c.want || cap(got) > 2*c.want {
			t.Errorf("%s: %d events, with room for %d", name, len(got), cap(got))
		}
	}
}

// What is read from the log, and not found in the tail, is bounded too.
func TestReadsAreBounded(t *testing.T) {
	log := memory.New()
	if _, err := log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	tip := event.Pos{}
	for range 40 {
		f := event.Fact{Key: event.Log, Time: time.Unix(1, 0), Data: &factv1.Complete{Reason: strings.Repeat("r", 50<<10)}}
		mark, err := log.Append(t.Context(), f, tip.Seq)
		if err != nil {
			t.Fatal(err)
		}
		tip = mark.Pos
	}
	h, err := New(Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	for seen := (event.Pos{Epoch: tip.Epoch}); seen != tip; {
		piece, err := h.Next(t.Context(), seen)
		if err != nil {
			t.Fatal(err)
		}
		bytes := 0
		for _, e := range piece {
			bytes += sizeOf(e)
		}
		if bytes > pieceBytes || piece[0].Pos.Seq != seen.Seq+1 {
			t.Fatalf("behind %d there are %d bytes from %d on", seen.Seq, bytes, piece[0].Pos.Seq)
		}
		seen = piece[len(piece)-1].Pos
	}
}

func TestTheTailIsBoundedAndUnbroken(t *testing.T) {
	var at tail
	check := func() {
		t.Helper()
		bytes := 0
		for i, e := range at.events {
			bytes += sizeOf(e)
			if i > 0 && e.Pos.Seq != at.events[i-1].Pos.Seq+1 {
				t.Fatalf("event %d is followed by %d", at.events[i-1].Pos.Seq, e.Pos.Seq)
			}
		}
		if bytes != at.bytes || bytes > tailBytes || len(at.events) > tailEvents {
			t.Fatalf("%d events of %d bytes, counted %d", len(at.events), bytes, at.bytes)
		}
	}
	for seq := uint64(1); seq < 3*tailEvents; seq++ {
		at.add([]event.Stored{stored("a", seq, 10)})
		check()
	}
	for seq := uint64(3 * tailEvents); seq < 3*tailEvents+500; seq++ {
		at.add([]event.Stored{stored("a", seq, 60<<10)})
		check()
	}
	at.add([]event.Stored{stored("a", 1, 1), stored("a", 2, 1)}) // read again from the start
	check()
	if len(at.events) != 2 {
		t.Errorf("what was before is not forgotten: %d events", len(at.events))
	}
	at.add([]event.Stored{stored("b", 3, 1)})
	if check(); len(at.events) != 1 {
		t.Errorf("the epoch before is not forgotten: %d events", len(at.events))
	}
}
