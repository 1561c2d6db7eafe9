package logtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

func mustRead(t *testing.T, log eventbus.Reader, behind event.Pos) eventbus.Cursor {
	t.Helper()
	c, err := log.Read(timed(t), behind)
	if err != nil {
		t.Fatalf("Read(%v): %v", behind, err)
	}
	t.Cleanup(c.Close)
	return c
}

// readUntil is until, and checks that there are no gaps.
func readUntil(t *testing.T, c eventbus.Cursor, seq uint64) []event.Stored {
	t.Helper()
	all := until(t, c, seq)
	for n, e := range all {
		if e.Pos.Seq != all[0].Pos.Seq+uint64(n) {
			t.Fatalf("%v came after %v", e.Pos, all[n-1].Pos)
		}
	}
	return all
}

// verified reads the whole log and checks that it is right up to the tip.
func verified(t *testing.T, log eventbus.Reader, tip event.Mark) []event.Stored {
	t.Helper()
	events := readUntil(t, mustRead(t, log, event.Pos{}), tip.Seq)
	if err := eventbus.Verify(events, tip, tip); err != nil {
		t.Errorf("the log up to %d: %v", tip.Seq, err)
	}
	return events
}

func linked(t *testing.T, s Store) {
	log, _ := begun(t, s)
	marks := []event.Mark{mustRecord(t, log, Fact("a", 1), 0), mustRecord(t, log, Fact("b", 1), 0)}
	marks = append(marks, mustRecord(t, log, Fact("a", 2), marks[0].Seq), mustRecord(t, log, Withdrawn("b"), marks[1].Seq))
	events := verified(t, s.Open(t), marks[3])
	for i, e := range events {
		if chain, err := event.ChainOf(e.Message); err != nil || chain != marks[i].Chain || e.Pos != marks[i].Pos {
			t.Errorf("event %d is at %v with %v (%v), Append returned %v", i, e.Pos, chain, err, marks[i])
		}
	}
	if len(events) != len(marks) {
		t.Errorf("%d events, want %d", len(events), len(marks))
	}
	for _, r := range until(t, mustFollow(t, s.Open(t)), 4) {
		if r.Mark() != marks[r.Pos.Seq-1] {
			t.Errorf("the follower gives %v, Append returned %v", r.Mark(), marks[r.Pos.Seq-1])
		}
	}
	if r, _, err := log.Newest(timed(t), event.RoutingKey("a")); err != nil || r.Mark() != marks[2] {
		t.Errorf("Newest gives %v, %v, Append returned %v", r.Mark(), err, marks[2])
	}
}

func timeGoesOn(t *testing.T, s Store) {
	before := time.Now().Add(-time.Second)
	log, _ := begun(t, s)
	other, _ := begun(t, s)
	for n := range 10 {
		mustAppend(t, log, Fact(fmt.Sprint("a", n), n), 0)
		mustAppend(t, other, Fact(fmt.Sprint("b", n), n), 0)
	}
	last := before
	for _, e := range readUntil(t, mustRead(t, s.Open(t), event.Pos{}), 20) {
		at, err := event.RecordedAt(e.Message)
		if err != nil || at.Before(last) || at.After(time.Now().Add(time.Second)) {
			t.Errorf("event %d was recorded at %v after %v: %v", e.Pos.Seq, at, last, err)
		}
		last = at
	}
}

func cursorReadsOn(t *testing.T, s Store) {
	log, _ := begun(t, s)
	c := mustRead(t, s.Open(t), event.Pos{})
	first := mustAppend(t, log, Fact("a", 1), 0)
	if got := readUntil(t, c, 1); len(got) != 1 || got[0].Pos != first {
		t.Fatalf("the cursor of an empty log gives %v, want the event at %v", got, first)
	}
	mustAppend(t, log, Fact("a", 2), 1)
	third := mustAppend(t, log, Fact("a", 3), 2)
	written, err := event.Encode(Fact("a", 3))
	if err != nil {
		t.Fatal(err)
	}
	behind := mustRead(t, s.Open(t), event.Pos{Epoch: first.Epoch, Seq: 2})
	for _, c := range []eventbus.Cursor{c, behind} {
		got := readUntil(t, c, 3)
		e := got[len(got)-1]
		if e.Pos != third || e.Message.Subject != written.Subject || string(e.Message.Data) != string(written.Data) {
			t.Errorf("event 3 is %v, want %v", e, written)
		}
		for name, value := range written.Header {
			if e.Message.Header[name] != value {
				t.Errorf("event 3 has %s %q, want %q", name, e.Message.Header[name], value)
			}
		}
	}
	atTip := mustRead(t, s.Open(t), third)
	mustAppend(t, log, Fact("b", 1), 0)
	if got := readUntil(t, atTip, 4); len(got) != 1 {
		t.Errorf("a cursor behind the tip gives %v", got)
	}
}

func cursorEnds(t *testing.T, s Store) {
	_, err := s.Open(t).Read(timed(t), event.Pos{})
	expectError(t, "Read without a log", err, eventbus.ErrNoLog)
	log, begin := begun(t, s)
	_, err = log.Read(timed(t), event.Pos{Epoch: "another"})
	expectError(t, "Read of another epoch", err, eventbus.ErrEpochEnded)
	mustAppend(t, log, Fact("a", 1), 0)
	c := mustRead(t, log, begin)
	readUntil(t, c, 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Next with its context ended: %v", err)
	}
	closed := mustRead(t, log, event.Pos{})
	closed.Close()
	closed.Close()
	if _, err := closed.Next(timed(t)); err == nil {
		t.Error("Next after Close gives no error")
	}
	if _, err := log.Restart(timed(t), begin.Epoch); err != nil {
		t.Fatal(err)
	}
	_, err = c.Next(timed(t))
	expectError(t, "Next of a log that began again", err, eventbus.ErrEpochEnded)
}

func historyOfAKey(t *testing.T, s Store) {
	_, err := s.Open(t).HistoryOf(timed(t), event.RoutingKey("a"))
	expectError(t, "HistoryOf without a log", err, eventbus.ErrNoLog)
	log, _ := begun(t, s)
	mustAppend(t, log, Fact("a", 1), 0)
	mustAppend(t, log, Fact("a.b", 7), 0)
	mustAppend(t, log, Fact("a", 2), 1)
	mustAppend(t, log, Withdrawn("a"), 3)
	mustAppend(t, log, Fact("a", 3), 4)
	for key, want := range map[string][]string{
		"a": {"1 key/a 1", "3 key/a 2", "4 key/a -1", "5 key/a 3"}, "a.b": {"2 key/a.b 7"}, "none": nil,
	} {
		got, err := s.Open(t).HistoryOf(timed(t), event.RoutingKey(key))
		if err != nil {
			t.Fatalf("HistoryOf(%s): %v", key, err)
		}
		expect(t, got, want...)
	}
}

func keptStretch(t *testing.T, s Store) {
	_, err := s.Open(t).Kept(timed(t))
	expectError(t, "Kept without a log", err, eventbus.ErrNoLog)
	log, begin := begun(t, s)
	kept, err := s.Open(t).Kept(timed(t))
	if err != nil || kept.Tip != begin || kept.Floor != (event.Pos{Epoch: begin.Epoch, Seq: 1}) || kept.Bytes != 0 {
		t.Errorf("an empty log keeps %v: %v", kept, err)
	}
	mustAppend(t, log, Fact("a", 1), 0)
	tip := mustAppend(t, log, Fact("b", 1), 0)
	kept, err = s.Open(t).Kept(timed(t))
	if err != nil || kept.Tip != tip || kept.Floor.Seq != 1 || kept.Bytes < 500 || kept.Bytes > 5000 {
		t.Errorf("the log keeps %v up to %v: %v", kept, tip, err)
	}
}

// together appends from many goroutines at once, from two logs: all different
// keys are recorded, and of the same key one fact at each place.
func together(t *testing.T, s Store) {
	const appenders = 64
	log, begin := begun(t, s)
	other, _ := begun(t, s)
	var all sync.WaitGroup
	var mu sync.Mutex
	marks := map[event.Mark]bool{}
	won := 0
	start := make(chan struct{})
	for i := range appenders {
		log := []eventbus.Log{log, other}[i%2]
		all.Go(func() {
			<-start
			own, err := log.Append(timed(t), Fact(fmt.Sprint("k", i), i), 0)
			if err != nil {
				t.Errorf("append of a key of its own: %v", err)
			}
			shared, err := log.Append(timed(t), Fact("shared", i), 0)
			mu.Lock()
			defer mu.Unlock()
			marks[own] = true
			switch {
			case err == nil:
				won++
				marks[shared] = true
			case !errors.Is(err, eventbus.ErrConflict):
				t.Errorf("append of a shared key: %v", err)
			}
		})
	}
	close(start)
	all.Wait()
	tip, err := s.Open(t).Begin(timed(t), event.Mark{})
	if err != nil || won != 1 || tip.Seq != appenders+1 || len(marks) != appenders+1 || tip.Epoch != begin.Epoch {
		t.Fatalf("%d of %d won, %d places were given, the tip is %v: %v", won, appenders, len(marks), tip, err)
	}
	for _, e := range verified(t, s.Open(t), tip) {
		if chain, err := event.ChainOf(e.Message); err != nil || !marks[event.Mark{Pos: e.Pos, Chain: chain}] {
			t.Errorf("no Append returned event %d: %v", e.Pos.Seq, err)
		}
	}
}

func givenUpAppend(t *testing.T, s Store) {
	log, _ := begun(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := log.Append(ctx, Fact("a", 1), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("Append with its context ended: %v", err)
	}
	if mark := mustRecord(t, log, Fact("a", 2), 0); mark.Seq != 1 {
		t.Errorf("the next fact is at %v", mark)
	}
}

// floorOf returns the fact of a floor, and completeAt the one that confirms it.
func floorOf(reason string) event.Fact {
	return event.Fact{Key: event.LogFloor, Data: &factv1.Floor{Reason: reason}}
}

func completeAt(floor uint64) event.Fact {
	return event.Fact{Key: event.Log, Data: &factv1.Complete{Reason: "test", Floor: floor}}
}
