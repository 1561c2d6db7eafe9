package logtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

func followBeforeAndAfter(t *testing.T, s Store) {
	log, _ := begun(t, s)
	mustAppend(t, log, Fact("a", 1), 0)
	mustAppend(t, log, Fact("b", 1), 0)
	mustAppend(t, log, Fact("a", 2), 1)
	f := mustFollow(t, s.Open(t))
	s.expectPresent(t, until(t, f, 3), "2 key/b 1", "3 key/a 2")
	mustAppend(t, log, Fact("b", 2), 2)
	mustAppend(t, log, Fact("b", 3), 4)
	mustAppend(t, log, Fact("c", 1), 0)
	expect(t, until(t, f, 6), "4 key/b 2", "5 key/b 3", "6 key/c 1")
}

func followEmpty(t *testing.T, s Store) {
	log, _ := begun(t, s)
	f := mustFollow(t, s.Open(t))
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := log.Append(timed(t), Fact("a", 1), 0); err != nil {
			t.Errorf("Append: %v", err)
		}
	})
	expect(t, until(t, f, 1), "1 key/a 1")
	all.Wait()
}

func wholeAtTip(t *testing.T, s Store) {
	log, _ := begun(t, s)
	mustAppend(t, log, Fact("a", 1), 0)
	mustAppend(t, log, Fact("complete", 1), 0)
	mustAppend(t, log, Fact("a", 2), 1)
	f := mustFollow(t, s.Open(t))
	tip := mustTip(t, s.Open(t))
	s.expectPresent(t, until(t, f, tip.Seq), "2 key/complete 1", "3 key/a 2")
}

func tombstonesStay(t *testing.T, s Store) {
	log, _ := begun(t, s)
	mustAppend(t, log, Fact("a", 1), 0)
	mustAppend(t, log, Withdrawn("a"), 1)
	mustAppend(t, log, Fact("b", 1), 0)
	s.expectPresent(t, until(t, mustFollow(t, s.Open(t)), 3), "2 key/a -1", "3 key/b 1")
}

func everythingIsKept(t *testing.T, s Store) {
	const versions = 40
	log, _ := begun(t, s)
	mustAppend(t, log, Fact("old", 1), 0)
	f := mustFollow(t, s.Open(t))
	var last uint64
	for n := range versions {
		last = mustAppend(t, log, Fact("busy", n), last).Seq
	}
	s.expectPresent(t, until(t, mustFollow(t, s.Open(t)), last), "1 key/old 1", fmt.Sprint(last, " key/busy ", versions-1))
	// A slow follower sees all of it.
	slow := until(t, f, last)
	if n := len(slow); slow[0].Fact.Key != event.RoutingKey("old") || number(slow[n-1].Fact) != versions-1 || n != versions+1 {
		t.Errorf("the slow follower saw %d facts, the last %v", n, slow[n-1])
	}
}

func givenUpWait(t *testing.T, s Store) {
	log, _ := begun(t, s)
	f := mustFollow(t, s.Open(t))
	for i := range 5 {
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(cancel)
		if _, err := f.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("Next with its context ended: %v", err)
		}
		all.Wait()
		pos := mustAppend(t, log, Fact(fmt.Sprint("k", i), i), 0)
		expect(t, until(t, f, pos.Seq), fmt.Sprintf("%d key/k%d %d", i+1, i, i))
	}
}

func closeEndsWait(t *testing.T, s Store) {
	log, _ := begun(t, s)
	f := mustFollow(t, log)
	var all sync.WaitGroup
	all.Go(f.Close)
	if _, err := f.Next(timed(t)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Next of a closed follower: %v", err)
	}
	all.Wait()
	f.Close()
	if _, err := f.Next(timed(t)); err == nil {
		t.Error("Next after Close gives no error")
	}
}

func manyKeys(t *testing.T, s Store) {
	const keys = 3000
	log, _ := begun(t, s)
	all := appendMany(t, log, keys, 10)
	early := mustFollow(t, s.Open(t))
	all.Wait()
	for _, f := range []eventbus.Follower{early, mustFollow(t, s.Open(t))} {
		if got := until(t, f, keys); len(got) != keys {
			t.Errorf("the follower gave %d facts, want %d", len(got), keys)
		}
	}
}

func sideBySide(t *testing.T, s Store) {
	const writers, rounds = 4, 50
	log, _ := begun(t, s)
	f := mustFollow(t, s.Open(t))
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			var last uint64
			for n := range rounds {
				pos, err := log.Append(timed(t), Fact(fmt.Sprint("w", w), n), last)
				if err != nil {
					t.Errorf("Append: %v", err)
					return
				}
				last = pos.Seq
			}
		})
	}
	got := until(t, f, writers*rounds)
	all.Wait()
	next := map[event.Key]int{}
	for _, r := range got {
		if number(r.Fact) != next[r.Fact.Key] {
			t.Fatalf("%v: %s came with %d, want %d", r.Pos, r.Fact.Key, number(r.Fact), next[r.Fact.Key])
		}
		next[r.Fact.Key]++
	}
	if len(got) != writers*rounds {
		t.Errorf("a follower that was there from the start saw %d of %d", len(got), writers*rounds)
	}
}

func newerKinds(t *testing.T, s Store) {
	log, begin := begun(t, s)
	newer, err := event.Encode(Fact("newer", 1))
	if err != nil {
		t.Fatal(err)
	}
	newer.Header["ce-type"] = "dev.switchyard.routing.declared.v9"
	mustAppend(t, log, Fact("a", 1), 0)
	s.AppendMessage(t, newer)
	f := mustFollow(t, log)
	expect(t, until(t, f, 2), "1 key/a 1", "2 key/newer -1")
	s.AppendMessage(t, newer)
	mustAppend(t, log, Fact("b", 1), 0)
	got := until(t, f, 4)
	expect(t, got, "3 key/newer -1", "4 key/b 1")
	if got[0].Fact.Data != nil {
		t.Errorf("an event of a newer kind has data: %v", got[0])
	}
	r, ok, err := log.Newest(timed(t), event.RoutingKey("newer"))
	if err != nil || !ok || r.Pos != (event.Pos{Epoch: begin.Epoch, Seq: 3}) || r.Fact.Data != nil {
		t.Errorf("newest of a key with a newer kind of event is %v, %v, %v", r, ok, err)
	}
	mustAppend(t, log, Fact("newer", 2), 3)
}

func damaged(t *testing.T, s Store) {
	log, _ := begun(t, s)
	m, err := event.Encode(Fact("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	m.Data = m.Data[:len(m.Data)/2]
	mustAppend(t, log, Fact("b", 1), 0)
	s.AppendMessage(t, m)
	f := mustFollow(t, log)
	for err == nil {
		_, err = f.Next(timed(t))
	}
	expectError(t, "Next at a damaged event", err, eventbus.ErrDamaged)
	_, _, err = log.Newest(timed(t), event.RoutingKey("a"))
	expectError(t, "Newest of a damaged event", err, eventbus.ErrDamaged)
}

// foldsAlike appends at random and checks that followers that start at any time end with the
// last fact of each key.
func foldsAlike(t *testing.T, s Store) {
	random := rand.New(rand.NewPCG(1, 2)) // the same sequence in every run
	log, _ := begun(t, s)
	want, last := map[event.Key]int{}, map[event.Key]uint64{}
	var followers []eventbus.Follower
	var tip event.Pos
	for i := range 400 {
		if i%80 == 0 {
			followers = append(followers, mustFollow(t, s.Open(t)))
		}
		name := fmt.Sprint("k", random.IntN(20))
		f := Fact(name, i)
		if random.IntN(4) == 0 {
			f = Withdrawn(name)
		}
		tip = mustAppend(t, log, f, last[f.Key])
		want[f.Key], last[f.Key] = number(f), tip.Seq
	}
	for i, f := range append(followers, mustFollow(t, s.Open(t))) {
		got := map[event.Key]int{}
		for _, r := range until(t, f, tip.Seq) {
			got[r.Fact.Key] = number(r.Fact)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("follower %d ends with\n%v, want\n%v", i, got, want)
		}
	}
}
