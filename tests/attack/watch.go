package attack

import (
	"context"
	"fmt"
	"slices"
	"time"

	"switchyard.dev/tests/process"
)

// Memory is what a sidecar's processes held while they were watched.
type Memory struct {
	// Before is the initial memory, and Peak the maximum, in bytes.
	Before, Peak int64
	// Restarts counts processes that came in place of others.
	Restarts int
}

const watchEvery = 50 * time.Millisecond

// Watch measures the memory of a process and its current and future children, until ctx ends.
func Watch(ctx context.Context, pid int) (Memory, error) {
	before, known, err := held(pid)
	m := Memory{Before: before, Peak: before}
	for tick := time.NewTicker(watchEvery); err == nil; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return m, nil
		case <-tick.C:
		}
		var now int64
		var family []int
		if now, family, err = held(pid); err != nil {
			break
		}
		m.Peak = max(m.Peak, now)
		for _, p := range family {
			if !slices.Contains(known, p) {
				m.Restarts++
				known = append(known, p)
			}
		}
	}
	return m, fmt.Errorf("read the sidecar's memory: %w", err)
}

// held returns what a process and its children have in memory, and who they are.
func held(pid int) (bytes int64, family []int, err error) {
	family = append([]int{pid}, process.Children(pid)...)
	for _, p := range family {
		now, _, err := process.Memory(p)
		if err != nil && p == pid {
			return 0, nil, err
		}
		bytes += int64(now * (1 << 20)) // 0 if the child has ended
	}
	return bytes, family, nil
}
