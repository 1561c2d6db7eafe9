package wake_test

import (
	"context"
	"errors"
	"slices"
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

func TestSleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	began := time.Now()
	if !wake.Sleep(ctx, 5*time.Millisecond) || time.Since(began) < 5*time.Millisecond {
		t.Errorf("slept for %s", time.Since(began))
	}
	cancel()
	if wake.Sleep(ctx, time.Hour) || wake.Sleep(ctx, 0) {
		t.Error("slept although the context had ended")
	}
}

func TestNotifyDoesNotBlock(t *testing.T) {
	c := make(chan struct{}, 1)
	wake.Notify(c)
	wake.Notify(c)
	if !closed(c) || closed(c) {
		t.Error("two notifications of a reader that is busy are not one")
	}
}

func TestKeepReportsAnErrorOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	results := []error{errors.New("a"), errors.New("a"), errors.New("b"), nil, errors.New("b"), nil}
	var said []string
	wake.Keep(ctx, 0, 0, func(context.Context) error {
		next := results[0]
		if results = results[1:]; len(results) == 0 {
			cancel()
		}
		return next
	}, func(err error) { said = append(said, err.Error()) })
	if want := []string{"a", "b", "b"}; !slices.Equal(said, want) {
		t.Errorf("it reports %v, not %v", said, want)
	}
}
