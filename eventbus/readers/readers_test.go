package readers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/eventbus/readers"
)

func TestReadersTakeTurns(t *testing.T) {
	log := memory.New()
	if _, err := log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	b, err := readers.Bound(log, 2, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	first, err := b.Read(t.Context(), event.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.Follow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Read(t.Context(), event.Pos{}); !errors.Is(err, eventbus.ErrBusy) ||
		err.Error() != "2 readers of the routing log are at work, the most allowed, and none ended within 50ms" {
		t.Errorf("a third reader got %v", err)
	}
	if _, err := b.HistoryOf(t.Context(), event.Log); !errors.Is(err, eventbus.ErrBusy) {
		t.Errorf("a third reader, of one key, got %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Read(gone, event.Pos{}); !errors.Is(err, context.Canceled) {
		t.Errorf("one that does not want it any more got %v", err)
	}
	if _, err := b.Tip(t.Context()); err != nil {
		t.Errorf("the tip is not to be had: %v", err)
	}
	first.Close()
	first.Close() // the turn is given back once
	third, err := b.Read(t.Context(), event.Pos{})
	if err != nil {
		t.Fatalf("a turn was not given back: %v", err)
	}
	if _, err := b.Read(t.Context(), event.Pos{}); !errors.Is(err, eventbus.ErrBusy) {
		t.Errorf("closing twice gave two turns back: %v", err)
	}
	second.Close()
	third.Close()
	for range 5 { // no turn is lost by what fails or ends
		if _, err := b.Read(t.Context(), event.Pos{Epoch: "another", Seq: 1}); errors.Is(err, eventbus.ErrBusy) || err == nil {
			t.Fatalf("reading another epoch: %v", err)
		}
		if _, err := b.HistoryOf(t.Context(), event.Log); err != nil {
			t.Fatal(err)
		}
	}
}

func TestABadBoundIsRefused(t *testing.T) {
	if _, err := readers.Bound(nil, 1, 0); err == nil {
		t.Error("no log: accepted")
	}
	if _, err := readers.Bound(memory.New(), 0, 0); err == nil {
		t.Error("no reader: accepted")
	}
}
