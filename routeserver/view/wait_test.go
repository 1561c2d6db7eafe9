package view_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
)

// waiting is a WaitFor that goes on.
type waiting struct {
	t    *testing.T
	done chan struct{}
	got  table.Table
	err  error
}

func waitFor(t *testing.T, v *view.View, epoch string, seq uint64) *waiting {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	w := &waiting{t: t, done: make(chan struct{})}
	go func() {
		defer cancel()
		defer close(w.done)
		w.got, w.err = v.WaitFor(ctx, event.Pos{Epoch: epoch, Seq: seq})
	}()
	return w
}

func (w *waiting) stillWaits(why string) {
	w.t.Helper()
	holdsFor(w.t, 20, why, func() bool {
		select {
		case <-w.done:
			return false
		default:
			return true
		}
	})
}

func (w *waiting) gives(seq uint64) {
	w.t.Helper()
	if <-w.done; w.err != nil || w.got.Pos().Seq < seq {
		w.t.Fatalf("got a table at %v, %v; want one at %d or later", w.got.Pos(), w.err, seq)
	}
}

func TestWaitForAPosition(t *testing.T) {
	log := &scripted{tip: event.Pos{Epoch: "e", Seq: 3}}
	v := run(t, log)
	cold := waitFor(t, v, "e", 3)
	log.give(at("e", 1, declare("k1", "w1")), at("e", 2, observe("w1")))
	cold.stillWaits("no table is whole")
	log.give(at("e", 3, &factv1.Complete{}))
	cold.gives(3)
	waitFor(t, v, "e", 2).gives(3)
	behind := waitFor(t, v, "e", 4)
	behind.stillWaits("the position is not reached")
	// The fact says nothing new, so readers of Current are not woken.
	log.give(at("e", 4, declare("k1", "w1")))
	behind.gives(4)
}

func TestWaitForAPositionOfALogThatBeginsAgain(t *testing.T) {
	log := &scripted{tip: event.Pos{Epoch: "e", Seq: 1}}
	v := run(t, log)
	log.give(at("e", 1, &factv1.Complete{}))
	whole(t, v)
	next, never := waitFor(t, v, "f", 2), waitFor(t, v, "e", 2)
	log.rewind(event.Pos{Epoch: "f", Seq: 1}, eventbus.ErrEpochEnded)
	log.give(at("f", 1, declare("k1", "w1")))
	next.stillWaits("the table of the new epoch is not whole")
	never.stillWaits("the old table stays")
	log.give(at("f", 2, &factv1.Complete{}))
	next.gives(2)
	if <-never.done; !errors.Is(never.err, eventbus.ErrEpochEnded) {
		t.Errorf("a position of the epoch that ended: %v", never.err)
	}
}

// A view that begins late may show an epoch that has ended meanwhile before the
// one that is asked for.
func TestWaitForDoesNotGiveUpAtTheFirstTable(t *testing.T) {
	log := &scripted{tip: event.Pos{Epoch: "e", Seq: 1}}
	v := run(t, log)
	next := waitFor(t, v, "f", 1)
	log.give(at("e", 1, &factv1.Complete{}))
	whole(t, v)
	next.stillWaits("the first table is of another epoch")
	log.rewind(event.Pos{Epoch: "f", Seq: 1}, eventbus.ErrEpochEnded)
	log.give(at("f", 1, &factv1.Complete{}))
	next.gives(1)
}

func TestWaitForGivesUpWithItsContext(t *testing.T) {
	v := run(t, &scripted{tip: event.Pos{Epoch: "e", Seq: 1}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.WaitFor(ctx, event.Pos{Epoch: "e", Seq: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
