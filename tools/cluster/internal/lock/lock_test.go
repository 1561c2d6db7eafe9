package lock

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
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
		_, err := Take(t.Context(), path, func(owner string) { waiting <- owner })
		done <- err
	}()
	if owner := <-waiting; owner != strconv.Itoa(os.Getpid()) {
		t.Errorf("owner %q, want this process", owner)
	}
	select {
	case <-done:
		t.Fatal("the second got the lock while the first had it")
	default:
	}
	unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
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
