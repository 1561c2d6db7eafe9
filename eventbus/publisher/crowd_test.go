package publisher_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/publisher"
)

func TestALogIsCrowdedFromHalfOfItsRoomOn(t *testing.T) {
	for _, tt := range []struct {
		was        bool
		bytes, max uint64
		want       bool
	}{
		{false, 0, 0, false}, {true, 1 << 40, 0, false}, // no bound
		{false, 499, 1000, false}, {false, 500, 1000, true},
		{true, 499, 1000, true}, {true, 375, 1000, true}, {true, 374, 1000, false},
	} {
		if got := publisher.Crowded(tt.was, eventbus.Kept{Bytes: tt.bytes, MaxBytes: tt.max}); got != tt.want {
			t.Errorf("%d of %d, after %t: %t", tt.bytes, tt.max, tt.was, got)
		}
	}
}

func TestACrowdedLogIsReported(t *testing.T) {
	log := startBus(t).open(jetstream.Config{MaxBytes: 64 << 10})
	var told atomic.Int32
	w, _ := leadWith(t, publisher.Config{
		Log: log, Epochs: &epochs{}, BoundsPause: 5 * time.Millisecond,
		Crowded: func(crowded bool, kept eventbus.Kept) {
			if crowded && kept.Bytes >= kept.MaxBytes/2 {
				told.Add(1)
			}
		},
	}, map[string]int{"a": 1})
	ready(t, w)
	if s := w.publisher.Status(); told.Load() > 0 || s.Crowded || s.MaxBytes != 64<<10 {
		t.Errorf("with one fact in it: %+v", s)
	}
	for n := range 2000 {
		if _, err := w.publisher.Put(t.Context(), logtest.Fact("a", n+2)); err != nil {
			t.Fatal(fmt.Errorf("fact %d: %w", n, err))
		}
		if told.Load() > 0 {
			break
		}
	}
	await(t, "it is told", func() bool { return told.Load() > 0 && w.publisher.Status().Crowded })
}
