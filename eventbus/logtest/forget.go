package logtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// checkpoint records a floor, states a key again after it, and confirms the floor. It returns
// the place of the floor and the tip.
func checkpoint(t *testing.T, log eventbus.Log, lastFloor, lastComplete uint64, key string, last uint64) (floor event.Pos, tip event.Mark) {
	t.Helper()
	floor = mustAppend(t, log, floorOf("test"), lastFloor)
	mustAppend(t, log, Fact(key, 1000), last)
	return floor, mustRecord(t, log, completeAt(floor.Seq), lastComplete)
}

func forgetting(t *testing.T, s Store) {
	log, begin := begun(t, s)
	early := mustRecord(t, log, Fact("a", 1), 0)
	mustAppend(t, log, Fact("b", 1), 0)
	upToDate := mustFollow(t, s.Open(t))
	floor, tip := checkpoint(t, log, 0, 0, "a", 1)
	until(t, upToDate, tip.Seq)
	for range 2 { // the second time nothing happens
		if err := log.Forget(timed(t), floor); err != nil {
			t.Fatalf("Forget(%v): %v", floor, err)
		}
		kept, err := s.Open(t).Kept(timed(t))
		if err != nil || kept.Floor != floor || kept.Tip != tip.Pos {
			t.Fatalf("it keeps %v, want from %v to %v: %v", kept, floor, tip, err)
		}
	}
	if events := verified(t, s.Open(t), tip); events[0].Pos != floor || len(events) != 3 {
		t.Errorf("the log begins at %v and has %d events", events[0].Pos, len(events))
	}
	expect(t, until(t, mustFollow(t, s.Open(t)), tip.Seq), "3 floor -1", "4 key/a 1000", "5 log -1")
	// Keys that were not stated again are removed, and can be stated once more.
	if history, err := log.HistoryOf(timed(t), event.RoutingKey("a")); err != nil || len(history) != 1 {
		t.Errorf("the history of a is %v, %v", history, err)
	}
	if r, ok, err := log.Newest(timed(t), event.RoutingKey("b")); ok || err != nil {
		t.Errorf("the newest fact of b is %v, %v", r, err)
	}
	_, err := log.Append(timed(t), Fact("b", 2), 2)
	expectError(t, "append after a forgotten fact", err, eventbus.ErrConflict)
	mustAppend(t, log, Fact("b", 2), 0)
	expect(t, until(t, upToDate, 6), "6 key/b 2")
	for _, known := range []event.Mark{{}, early, tip} {
		if again, err := s.Open(t).Begin(timed(t), known); err != nil || again.Pos != (event.Pos{Epoch: begin.Epoch, Seq: 6}) {
			t.Errorf("begun again at %v: %v", again, err)
		}
	}
}

func forgetRefuses(t *testing.T, s Store) {
	log, _ := begun(t, s)
	other, _ := begun(t, s)
	mustAppend(t, log, Fact("a", 1), 0)
	floor, tip := checkpoint(t, log, 0, 0, "a", 1)
	for what, seq := range map[string]uint64{"no floor": 3, "nothing": tip.Seq + 1, "far beyond": 1000} {
		err := log.Forget(timed(t), event.Pos{Epoch: tip.Epoch, Seq: seq})
		expectError(t, "Forget up to "+what, err, eventbus.ErrRefused)
	}
	if kept, err := log.Kept(timed(t)); err != nil || kept.Floor.Seq != 1 {
		t.Errorf("it keeps %v: %v", kept, err)
	}
	if _, err := log.Restart(timed(t), tip.Epoch); err != nil {
		t.Fatal(err)
	}
	for what, log := range map[string]eventbus.Log{"that began another": log, "that did not": other} {
		expectError(t, "Forget of an epoch that ended, by a writer "+what, log.Forget(timed(t), floor), eventbus.ErrEpochEnded)
	}
}

// forgottenByOther checks that a writer learns what another has forgotten, and
// does not take it for damage when that is more than it has ever read.
func forgottenByOther(t *testing.T, s Store) {
	log, _ := begun(t, s)
	other, _ := begun(t, s)
	mustAppend(t, other, Fact("b", 1), 0)
	floor, _ := checkpoint(t, log, 0, 0, "a", 0)
	if err := log.Forget(timed(t), floor); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, other, Fact("b", 2), 0)
	late, _ := begun(t, s)
	mustAppend(t, other, Fact("b", 3), 5)
	next, _ := checkpoint(t, other, floor.Seq, 4, "b", 6)
	if err := other.Forget(timed(t), next); err != nil {
		t.Fatal(err)
	}
	if _, err := late.Append(timed(t), Fact("c", 1), 0); errors.Is(err, eventbus.ErrDamaged) {
		t.Errorf("append by a writer that has not read the forgotten events: %v", err)
	}
}

func gone(t *testing.T, s Store) {
	const events = 1500
	log, begin := begun(t, s)
	first := mustAppend(t, log, Fact("first", 1), 0)
	slow, late := mustFollow(t, s.Open(t)), mustRead(t, s.Open(t), event.Pos{})
	until(t, slow, 1)
	readUntil(t, late, 1)
	appendMany(t, log, events, 50).Wait()
	floor, tip := checkpoint(t, log, 0, 0, "first", first.Seq)
	if err := log.Forget(timed(t), floor); err != nil {
		t.Fatal(err)
	}
	for _, behind := range []uint64{0, 1, floor.Seq - 2} {
		_, err := s.Open(t).Read(timed(t), event.Pos{Epoch: begin.Epoch, Seq: behind})
		expectError(t, fmt.Sprint("Read behind ", behind), err, eventbus.ErrGone)
	}
	readUntil(t, mustRead(t, s.Open(t), event.Pos{Epoch: begin.Epoch, Seq: floor.Seq - 1}), tip.Seq)
	// They may return events that they already received; then ErrGone.
	expectError(t, "Next of a follower that is too far behind", endOf(t, 1, slow), eventbus.ErrGone)
	expectError(t, "Next of a cursor that is too far behind", endOf(t, 1, late), eventbus.ErrGone)
}

func restartFence(t *testing.T, s Store) {
	log, first := begun(t, s)
	other, _ := begun(t, s)
	second, err := other.Restart(timed(t), first.Epoch)
	if err != nil {
		t.Fatal(err)
	}
	mark := mustRecord(t, other, Fact("a", 1), 0)
	_, err = log.Restart(timed(t), first.Epoch)
	expectError(t, "Restart of an epoch that ended", err, eventbus.ErrEpochEnded)
	_, err = log.Append(timed(t), Fact("b", 1), 0)
	expectError(t, "Append after that", err, eventbus.ErrEpochEnded)
	if again, err := s.Open(t).Begin(timed(t), mark); err != nil || again != mark || again.Epoch != second.Epoch {
		t.Errorf("the second epoch is at %v, want %v: %v", again, mark, err)
	}
	third, err := log.Restart(timed(t), "")
	if err != nil || third.Epoch == second.Epoch || third != event.Before(third.Epoch) {
		t.Errorf("Restart without a name gives %v: %v", third, err)
	}
	s.Lose(t)
	for {
		fourth, err := log.Restart(timed(t), third.Epoch)
		if err == nil && fourth.Epoch != third.Epoch {
			break
		}
		if err == nil || errors.Is(err, eventbus.ErrEpochEnded) || errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Restart of a lost log gives %v: %v", fourth, err)
		}
	}
	mustAppend(t, log, Fact("a", 1), 0)
}
