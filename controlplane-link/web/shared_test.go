package web

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// A request that has ended waits for no read, and those that wait for one share it, also its error.
func TestSharedReads(t *testing.T) {
	var reads atomic.Int32
	release, failed := make(chan struct{}), errors.New("it fails")
	s := shared[int]{age: time.Hour, within: time.Hour}
	get := func(ctx context.Context) (int, bool, error) {
		return s.get(ctx, "key", func() string { return "r" }, func(context.Context) (int, error) {
			reads.Add(1)
			<-release
			return 0, failed
		})
	}
	gone, leave := context.WithCancel(t.Context())
	all := make(chan error, 10)
	for range cap(all) {
		go func() {
			_, _, err := get(gone)
			all <- err
		}()
	}
	leave()
	for range cap(all) {
		if err := <-all; !errors.Is(err, context.Canceled) {
			t.Errorf("a request that has ended gets %v", err)
		}
	}
	for range cap(all) {
		go func() {
			_, _, err := get(t.Context())
			all <- err
		}()
	}
	close(release)
	for range cap(all) {
		if err := <-all; !errors.Is(err, failed) {
			t.Errorf("a request gets %v", err)
		}
	}
	if n := reads.Load(); n > 10 {
		t.Errorf("%d reads for 20 requests", n)
	}
}

// A value of an older revision is not used, unless the new one is late.
func TestSharedRevisions(t *testing.T) {
	revision := "1"
	release := make(chan struct{})
	s := shared[string]{age: time.Hour, within: time.Hour, patience: time.Millisecond}
	get := func(want string, late bool) {
		t.Helper()
		now := revision
		got, stale, err := s.get(t.Context(), "key", func() string { return now }, func(context.Context) (string, error) {
			<-release
			return now, nil
		})
		if err != nil || got != want || stale != late {
			t.Errorf("revision %s: got %s, stale %v, %v", now, got, stale, err)
		}
	}
	time.AfterFunc(10*time.Millisecond, func() { release <- struct{}{} })
	get("1", false)
	get("1", false)
	revision = "2"
	get("1", true)
	get("1", true)
	close(release)
	s.patience = time.Hour
	get("2", false)
}

// A read that ignores its context delays a request no longer than a read may take.
func TestAReadThatIgnoresItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(time.Minute, cancel)
	s := shared[int]{within: time.Millisecond}
	_, _, err := s.get(ctx, "a", func() string { return "" }, func(context.Context) (int, error) {
		<-ctx.Done()
		return 0, nil
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the request ends with %v", err)
	}
}
