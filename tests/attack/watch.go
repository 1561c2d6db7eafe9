package attack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Memory is what a sidecar's processes held while they were watched.
type Memory struct {
	// Before is what they held at first, and Peak the most, in bytes.
	Before, Peak int64
	// Restarts counts processes that came in place of others.
	Restarts int
}

const watchEvery = 50 * time.Millisecond

// Watch looks at a process and its children, those of now and of later, until ctx
// ends.
func Watch(ctx context.Context, process int) (Memory, error) {
	before, known, err := held(process)
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
		if now, family, err = held(process); err != nil {
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
	return m, fmt.Errorf("look at the sidecar's memory: %w", err)
}

// held gives what a process and its children have in memory, and who they are.
func held(process int) (bytes int64, family []int, err error) {
	family = append([]int{process}, children(process)...)
	for _, p := range family {
		n, err := resident(p)
		if err != nil && p == process {
			return 0, nil, err
		}
		bytes += n // 0 of a child that has ended meanwhile
	}
	return bytes, family, nil
}

// children are the processes that a process has started.
func children(process int) (all []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, _ := os.ReadFile(file) // empty when it has ended
		_, after, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(process) {
			if p, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				all = append(all, p)
			}
		}
	}
	return all
}

// resident gives the bytes of a process that are in memory.
func resident(process int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", process))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("process %d is gone", process)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
