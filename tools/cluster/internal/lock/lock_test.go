package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestSecondWaitsUntilTheFirstIsDone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "lock")
	unlock, err := Take(t.Context(), path, func(string) { t.Error("the first had to wait") })
	if err != nil {
		t.Fatal(err)
	}
	waiting, done := make(chan string, 1), make(chan error, 1)
	go func() {
		release, err := Take(t.Context(), path, func(owner string) { waiting <- owner })
		if err == nil {
			release()
		}
		done <- err
	}()
	if owner := <-waiting; owner != strconv.Itoa(os.Getpid()) {
		t.Errorf("owner %q, want this process", owner)
	}
	select {
	case err := <-done:
		t.Fatal(err, "the second got the lock while the first had it")
	default:
	}
	unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestOnlyOneAtATimeHasTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var inside atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 3 {
				release, err := Take(t.Context(), path, func(string) {})
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d have the lock", n)
				}
				runtime.Gosched()
				inside.Add(-1)
				release()
			}
		})
	}
	all.Wait()
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := Take(t.Context(), path, func(string) {}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := Take(ctx, path, func(string) {}); err == nil {
		t.Error("got the lock twice")
	}
}
