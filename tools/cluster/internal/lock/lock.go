// Package lock lets one process at a time do something, by a lock on a file.
//
// The kernel drops the lock when the process ends, however it ends, so no stale
// lock is ever left. The file holds the process id of the owner, for the
// message to the one who waits.
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

// Take waits until it has the lock on the file at path, which it makes if it is
// not there. wait is called once, with the process id of the owner, when
// somebody else has it. The returned function gives the lock back. It fails
// when ctx ends first.
func Take(ctx context.Context, path string, wait func(owner string)) (func(), error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder for the lock: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	for first := true; ; first = false {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if first {
			owner, _ := os.ReadFile(path)
			wait(strings.TrimSpace(string(owner)))
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for the lock %s: %w", path, ctx.Err())
		case <-time.After(poll):
		}
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintln(f, os.Getpid())
	}
	return func() { f.Close() }, nil
}
