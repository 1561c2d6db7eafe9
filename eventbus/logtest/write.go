package logtest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

func noLog(t *testing.T, s Store) {
	log, ctx := s.Open(t), timed(t)
	_, err := log.Tip(ctx)
	expectError(t, "Tip", err, eventbus.ErrNoLog)
	_, err = log.Follow(ctx)
	expectError(t, "Follow", err, eventbus.ErrNoLog)
	_, err = log.Append(ctx, Fact("a", 1), 0)
	expectError(t, "Append", err, eventbus.ErrNoLog)
	_, _, err = log.Newest(ctx, event.RoutingKey("a"))
	expectError(t, "Newest", err, eventbus.ErrNoLog)
	begun(t, s)
	_, err = log.Append(ctx, Fact("a", 1), 0)
	expectError(t, "Append without Begin", err, eventbus.ErrNoLog)
}

func beginOnce(t *testing.T, s Store) {
	log, first := begun(t, s)
	if first.Epoch == "" || first.Seq != 0 {
		t.Fatalf("the log begins at %v", first)
	}
	at := mustAppend(t, log, Fact("a", 1), 0)
	var epochs sync.Map
	var all sync.WaitGroup
	for range 4 {
		log := s.Open(t)
		all.Go(func() {
			mark, err := log.Begin(timed(t), event.Mark{})
			epochs.Store(fmt.Sprint(mark.Pos, err), true)
		})
	}
	all.Wait()
	epochs.Range(func(got, _ any) bool {
		if want := fmt.Sprint(at, error(nil)); got != want {
			t.Errorf("Begin again: %v, want %v", got, want)
		}
		return true
	})
}

func positions(t *testing.T, s Store) {
	log, begin := begun(t, s)
	for i := range 3 {
		pos := mustAppend(t, log, Fact(fmt.Sprint("k", i), i), 0)
		if want := (event.Pos{Epoch: begin.Epoch, Seq: uint64(i + 1)}); pos != want {
			t.Errorf("fact %d is at %v, want %v", i, pos, want)
		}
		if tip := mustTip(t, s.Open(t)); tip != pos {
			t.Errorf("tip is %v after %v was recorded", tip, pos)
		}
	}
}

func compareAndSet(t *testing.T, s Store) {
	log, begin := begun(t, s)
	ctx := timed(t)
	first := mustAppend(t, log, Fact("a", 1), 0)
	mustAppend(t, log, Fact("b", 1), 0)
	for _, last := range []uint64{0, 2, 99} {
		_, err := log.Append(ctx, Fact("a", 2), last)
		expectError(t, fmt.Sprint("append at ", last), err, eventbus.ErrConflict)
	}
	_, err := log.Append(ctx, Fact("c", 1), 1)
	expectError(t, "append of a new key at 1", err, eventbus.ErrConflict)
	if pos := mustAppend(t, log, Fact("a", 2), first.Seq); pos != (event.Pos{Epoch: begin.Epoch, Seq: 3}) {
		t.Errorf("recorded at %v; refused facts took places", pos)
	}
}

func newest(t *testing.T, s Store) {
	log, _ := begun(t, s)
	ctx := timed(t)
	if _, ok, err := log.Newest(ctx, event.RoutingKey("a.b")); ok || err != nil {
		t.Fatalf("newest of a key without facts: %v, %v", ok, err)
	}
	first := mustAppend(t, log, Fact("a.b", 1), 0)
	second := mustAppend(t, log, Fact("a.b", 2), first.Seq)
	mustAppend(t, log, Fact("a", 7), 0)
	got, ok, err := log.Newest(ctx, event.RoutingKey("a.b"))
	if err != nil || !ok || got.Pos != second || !event.Same(got.Fact, Fact("a.b", 2)) || got.Fact.Cause != Fact("a.b", 2).Cause {
		t.Fatalf("newest is %v, %v, %v", got, ok, err)
	}
	mustAppend(t, log, Withdrawn("a.b"), second.Seq)
	got, ok, err = log.Newest(ctx, event.RoutingKey("a.b"))
	if err != nil || !ok || !got.Fact.Tombstone() {
		t.Fatalf("newest of a withdrawn key is %v, %v, %v", got, ok, err)
	}
}

func refused(t *testing.T, s Store) {
	log, _ := begun(t, s)
	large := Fact("a", 1)
	large.Data.(*factv1.RoutingDeclared).Members[0].Name = strings.Repeat("x", eventbus.MaxEvent)
	for what, f := range map[string]event.Fact{
		"too large":          large,
		"without data":       {Key: event.RoutingKey("a")},
		"with a foreign key": {Key: event.RoutingKey("b"), Data: Fact("a", 1).Data},
	} {
		_, err := log.Append(timed(t), f, 0)
		expectError(t, "a fact "+what, err, eventbus.ErrRefused)
	}
	if tip := mustTip(t, log); tip.Seq != 0 {
		t.Errorf("something was recorded: %v", tip)
	}
	mustAppend(t, log, Fact("a", 1), 0)
}

func oneWinner(t *testing.T, s Store) {
	const writers, rounds = 4, 25
	_, begin := begun(t, s)
	var all sync.WaitGroup
	places := make(chan uint64, writers*rounds)
	for w := range writers {
		log, _ := begun(t, s)
		all.Go(func() {
			var last uint64
			for done := 0; done < rounds; {
				pos, err := log.Append(timed(t), Fact("contended", w), last)
				switch {
				case err == nil:
					places <- pos.Seq
					last = pos.Seq
					done++
				case errors.Is(err, eventbus.ErrConflict):
					r, _, err := log.Newest(timed(t), event.RoutingKey("contended"))
					if err != nil {
						t.Errorf("Newest: %v", err)
						return
					}
					last = r.Pos.Seq
				default:
					t.Errorf("Append: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	close(places)
	seen := map[uint64]bool{}
	for seq := range places {
		if seen[seq] {
			t.Errorf("place %d was given twice", seq)
		}
		seen[seq] = true
	}
	if tip := mustTip(t, s.Open(t)); tip != (event.Pos{Epoch: begin.Epoch, Seq: writers * rounds}) || len(seen) != writers*rounds {
		t.Errorf("%d facts had a place and the tip is %v, want %d", len(seen), tip, writers*rounds)
	}
}

func restart(t *testing.T, s Store) {
	log, first := begun(t, s)
	other, _ := begun(t, s)
	last := mustAppend(t, log, Fact("a", 1), 0)
	f := mustFollow(t, other)
	until(t, f, 1)
	second, err := log.Restart(timed(t), "")
	if err != nil || second.Epoch == first.Epoch || second.Seq != 0 {
		t.Fatalf("restarted at %v after %v: %v", second, first, err)
	}
	endedForAll(t, s, other, f, last.Seq)
	if pos := mustAppend(t, log, Fact("a", 2), 0); pos != (event.Pos{Epoch: second.Epoch, Seq: 1}) {
		t.Errorf("first fact of the new epoch is at %v", pos)
	}
	if again, err := other.Begin(timed(t), event.Mark{}); err != nil || again.Pos != (event.Pos{Epoch: second.Epoch, Seq: 1}) {
		t.Errorf("the other writer begins at %v: %v", again, err)
	}
}

func lostStore(t *testing.T, s Store) {
	log, first := begun(t, s)
	last := mustAppend(t, log, Fact("a", 1), 0)
	f := mustFollow(t, log)
	until(t, f, 1)
	s.Lose(t)
	_, err := f.Next(timed(t))
	expectError(t, "Next", err, eventbus.ErrEpochEnded)
	_, err = s.Open(t).Tip(timed(t))
	expectError(t, "Tip", err, eventbus.ErrNoLog)
	// Another writer begins a new log; the old writer must not write into it.
	_, second := begun(t, s)
	if second.Epoch == first.Epoch {
		t.Errorf("the new log has the epoch of the lost one")
	}
	endedForAll(t, s, log, f, last.Seq)
}

// endedForAll checks that a writer and a follower of an epoch that ended get to
// know it, and that nothing of the writer's lands in the new one.
func endedForAll(t *testing.T, s Store, writer eventbus.Log, f eventbus.Follower, last uint64) {
	t.Helper()
	_, err := f.Next(timed(t))
	expectError(t, "Next", err, eventbus.ErrEpochEnded)
	for _, last := range []uint64{0, last} {
		err := appendAgain(timed(t), writer, Fact("a", 9), last)
		expectError(t, fmt.Sprint("Append into the ended epoch at ", last), err, eventbus.ErrEpochEnded)
	}
	if tip := mustTip(t, s.Open(t)); tip.Seq != 0 {
		t.Errorf("a fact of the ended epoch landed in the new one: %v", tip)
	}
}
