package history

import (
	"strings"
	"testing"

	"switchyard.dev/eventbus/event"
)

func stored(epoch string, seq uint64, size int) event.Stored {
	return event.Stored{Pos: event.Pos{Epoch: epoch, Seq: seq}, Message: event.Message{Subject: strings.Repeat("s", size)}}
}

func TestTheTailGivesWhatLiesBehindAPlace(t *testing.T) {
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
