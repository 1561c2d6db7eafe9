package attach

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/record"
)

// counters are those of all captures in a file that is mapped into memory. The kernel keeps the file whatever ends the process,
// so the next one can report what this one has counted until then.
type counters struct {
	incarnation string
	slots       []slot
}

// slots is how many captures and processes the file has; the oldest ones are overwritten.
const slots = 64

// slot has the counters of a capture in one process. began is when that was, in nanoseconds since 1970; 0: it is free.
type slot struct {
	began                int64
	capture, incarnation [64]byte
	record.Counters
}

// openCounters maps the counters of a file, which is created if it does not exist.
func openCounters(path, incarnation string) (*counters, error) {
	const size = slots * int(unsafe.Sizeof(slot{}))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()                                                      //nolint:errcheck // The mapping stays.
	if info, err := f.Stat(); err != nil || info.Size() != int64(size) { // new, or of another release
		// Written, so that the disk has room for it: a write to the mapping cannot fail later.
		_, also := f.WriteAt(make([]byte, size), 0)
		if err := errors.Join(err, also, f.Truncate(int64(size))); err != nil {
			return nil, err
		}
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return &counters{incarnation, unsafe.Slice((*slot)(unsafe.Pointer(&mapped[0])), slots)}, nil //nolint:gosec // of that size, and never unmapped
}

// of returns the counters of a capture in this process. It is not safe for concurrent use.
func (c *counters) of(capture string) *record.Counters {
	var oldest *slot
	for i := range c.slots {
		s := &c.slots[i]
		own := text(&s.incarnation) == c.incarnation
		if own && text(&s.capture) == capture {
			return &s.Counters
		}
		if !own && (oldest == nil || s.began < oldest.began) {
			oldest = s
		}
	}
	if oldest == nil || len(capture) > len(oldest.capture) {
		return &record.Counters{} // without a file
	}
	*oldest = slot{began: time.Now().UnixNano()}
	copy(oldest.capture[:], capture)
	copy(oldest.incarnation[:], c.incarnation)
	return &oldest.Counters
}

// earlier returns the reports of former processes, the oldest first. Their version is 0: they apply nothing.
func (c *counters) earlier() []*trafficv1.Applied {
	began, all := map[string]int64{}, map[string]*trafficv1.Applied{}
	for i := range c.slots {
		s := &c.slots[i]
		name := text(&s.incarnation)
		if s.began == 0 || name == c.incarnation {
			continue
		}
		if all[name] == nil {
			all[name], began[name] = &trafficv1.Applied{Incarnation: name}, s.began
		}
		all[name].Counts = append(all[name].Counts, s.Message(text(&s.capture)))
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *trafficv1.Applied) int {
		return cmp.Compare(began[a.Incarnation], began[b.Incarnation])
	})
}

func text(b *[64]byte) string { return string(bytes.TrimRight(b[:], "\x00")) }
