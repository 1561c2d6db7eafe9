package wake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"switchyard.dev/eventbus/wake"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestSendWakesAllWhoWaitAndNobodyLater(t *testing.T) {
	var s wake.Signal
	s.Send() // nobody waits
	first, second := s.Next(), s.Next()
	if closed(first) {
		t.Fatal("woken by what was before")
	}
	s.Send()
	if !closed(first) || !closed(second) {
		t.Error("not all are woken")
	}
	if closed(s.Next()) {
		t.Error("who comes later is woken by what was before")
	}
}

// A change right after the check is not missed.
func TestUntilMissesNoChange(t *testing.T) {
	var s wake.Signal
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	looks := 0
	err := s.Until(ctx, func() bool {
		looks++
		s.Send()
		return looks == 3
	})
	if err != nil || looks != 3 {
		t.Errorf("looked %d times: %v", looks, err)
	}
}

func TestUntilEndsWithItsContext(t *testing.T) {
	var s wake.Signal
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Until(ctx, func() bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := s.Until(ctx, func() bool { return true }); err != nil {
		t.Errorf("what is so already was waited for: %v", err)
	}
}
