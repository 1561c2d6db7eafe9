// Package lock serializes operations of several processes by a lock on a file.
//
// The kernel releases the lock when the process ends, however it ends, so no stale lock is ever
// left. The file contains the process id of the owner, for messages to waiting processes; it is
// removed with the lock.
package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// poll is how often a waiting process looks again.
const poll = 200 * time.Millisecond

// Take waits until it has the lock on the file at path, which it creates if necessary. wait is
// called once, with the process id of the owner, when another process has it. The returned function
// releases the lock. Take fails when ctx ends first.
func Take(ctx context.Context, path string, wait func(owner string)) (func(), error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder for the lock: %w", err)
	}
	for first := true; ; first = false {
		f, err := try(path)
		if err != nil {
			return nil, err
		}
		if f != nil {
			return func() { release(f) }, nil
		}
		if first {
			owner, _ := os.ReadFile(path) // only for the message
			wait(strings.TrimSpace(string(owner)))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the lock %s: %w", path, ctx.Err())
		case <-time.After(poll):
		}
	}
}

// try takes the lock if it is free. Without an error and without a file it is not.
func try(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && !same(f, path) {
		err = unix.EWOULDBLOCK // the owner before has removed this file: another one counts
	}
	if err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintln(f, os.Getpid())
	}
	return f, nil
}

// release removes the file before it releases the lock, so that two processes never lock different
// files with this path.
func release(f *os.File) {
	_ = os.Remove(f.Name()) // a file that stays does no harm
	f.Close()
}

// same reports whether path still names the open file.
func same(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(opened, named)
}
