package wait

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
)

func TestUntilReturnsTheLastErrorAtTheDeadline(t *testing.T) {
	wrong, looks := errors.New("wrong"), 0
	err := Until(t.Context(), 50*time.Millisecond, "it is right", func() error { looks++; return wrong })
	if !errors.Is(err, wrong) || looks < 2 {
		t.Errorf("%v after %d looks", err, looks)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Until(ended, time.Hour, "it is right", func() error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("%v after its context has ended", err)
	}
	looks = 0
	if err := Until(t.Context(), time.Minute, "it is right", func() error {
		if looks++; looks < 3 {
			return wrong
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	looks = 0
	if err := Until(t.Context(), time.Second, "it is right", func() error {
		looks++
		return Final(wrong)
	}); err != wrong || looks != 1 { //nolint:errorlint // it is the error itself
		t.Errorf("%v after %d looks at what waiting does not mend", err, looks)
	}
}

// failing notes that it was failed, and ends its goroutine.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Fatalf(string, ...any) { f.failed = true; runtime.Goexit() }

func TestWhileWorkingFailsWhenNothingIsDone(t *testing.T) {
	wrong, work, looks := errors.New("wrong"), 0, 0
	WhileWorking(t, time.Nanosecond, "it is right", func() int { work++; return work }, func() error {
		if looks++; looks < 3 {
			return wrong
		}
		return nil
	})
	f, ended := &failing{TB: t}, make(chan struct{})
	go func() {
		defer close(ended)
		WhileWorking(f, time.Millisecond, "it is right", func() int { return 0 }, func() error { return wrong })
	}()
	if <-ended; !f.failed {
		t.Error("it does not fail")
	}
}
