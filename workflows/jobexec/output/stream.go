package output

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"switchyard.dev/eventbus/wake"
)

// Limits are those of a stream, in bytes. Head is a multiple of Segment.
type Limits struct{ Head, Tail, Segment uint64 }

// Default are the limits of a stream of an execution: at most 129 MiB of a disk.
var Default = Limits{Head: 64 << 20, Tail: 64 << 20, Segment: 1 << 20}

// Extent is how much of a stream exists: Total bytes, of which those in [Head, TailFrom) are lost when TailFrom is
// greater than Head.
type Extent struct{ Total, Head, TailFrom uint64 }

// Stream is a stream of output in a folder. Append and Close are for one goroutine, the other methods for any.
type Stream struct {
	dir    string
	limits Limits
	// file is the last segment while it is written to.
	file *os.File

	mu      sync.Mutex
	changed wake.Signal
	// segments are in the order of their offsets; they are contiguous except for one gap at most.
	segments []segment
	total    uint64
	closed   bool
}

// segment is a file with the bytes [from, to) of a stream.
type segment struct{ from, to uint64 }

// Open opens the stream in a folder, which is created if necessary. The caller closes it.
func Open(dir string, limits Limits) (*Stream, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open a stream of output: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open a stream of output: %w", err)
	}
	s := &Stream{dir: dir, limits: limits}
	for _, e := range entries {
		from, err := strconv.ParseUint(e.Name(), 10, 64)
		if err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("open a stream of output: %w", err)
		}
		s.segments = append(s.segments, segment{from, from + uint64(info.Size())})
	}
	slices.SortFunc(s.segments, func(a, b segment) int { return cmp.Compare(a.from, b.from) })
	if n := len(s.segments); n > 0 {
		s.total = s.segments[n-1].to
	}
	return s, s.trim()
}

// Append adds bytes that begin at an offset of the stream, and returns the total, up to which the stream needs not
// be sent again. Bytes that the stream has already are skipped; those between the total and a greater offset are
// lost. An error is that of the disk, by which bytes were lost too; the stream continues.
func (s *Stream) Append(offset uint64, data []byte) (total uint64, err error) {
	total = s.Extent().Total
	if offset > total {
		s.lose(offset)
		total = offset
	}
	data = data[min(total-offset, uint64(len(data))):]
	for len(data) > 0 {
		n, failed := s.write(total, data)
		if s.grow(total, uint64(n)); failed != nil && !s.sacrifice() {
			err, n = failed, len(data)
			s.lose(total + uint64(n))
		}
		total, data = total+uint64(n), data[n:]
	}
	return total, errors.Join(err, s.trim())
}

// write adds bytes to the last segment, or to a new one, and returns how many.
func (s *Stream) write(at uint64, data []byte) (int, error) {
	if s.file == nil {
		// The segment exists if the process was restarted.
		f, err := os.OpenFile(s.path(s.start(at)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return 0, err
		}
		s.file = f
	}
	left := s.limits.Segment - at%s.limits.Segment
	n, err := s.file.Write(data[:min(left, uint64(len(data)))])
	if n == 0 && s.start(at) == at {
		_ = os.Remove(s.file.Name()) // it is empty
	}
	if uint64(n) == left || err != nil {
		err = errors.Join(err, s.release())
	}
	return n, err
}

// start returns the offset of the segment that the byte at an offset is added to.
func (s *Stream) start(at uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.segments); n > 0 && s.segments[n-1].to == at && at%s.limits.Segment != 0 {
		return s.segments[n-1].from
	}
	return at
}

// grow takes note of n bytes that were written at an offset.
func (s *Stream) grow(at, n uint64) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.segments) - 1; last >= 0 && s.segments[last].to == at && at%s.limits.Segment != 0 {
		s.segments[last].to += n
	} else {
		s.segments = append(s.segments, segment{at, at + n})
	}
	s.total = at + n
	s.changed.Send()
}

// lose takes note that the bytes up to a total are lost.
func (s *Stream) lose(total uint64) {
	_ = s.release() // its bytes were written
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total = total
	s.changed.Send()
}

// release closes the segment that is written to.
func (s *Stream) release() error {
	if s.file == nil {
		return nil
	}
	defer func() { s.file = nil }()
	return s.file.Close()
}

// trim removes the segments that are neither of the head nor of the tail, and those between two gaps.
func (s *Stream) trim() error {
	return s.remove(func(all []segment, total uint64) (from, to int) {
		from = s.headSegments(all)
		for to = from; to < len(all) && all[to].to+s.limits.Tail <= total; to++ {
		}
		end, gaps, last := uint64(0), 0, 0
		for i, one := range append(slices.Delete(slices.Clone(all), from, to), segment{total, total}) {
			if one.from != end {
				gaps, last = gaps+1, i
			}
			end = one.to
		}
		if gaps > 1 {
			to += last - from
		}
		return from, to
	})
}

// sacrifice removes the oldest segment of the tail, where a disk is full. It returns false if there is none but the
// last one.
func (s *Stream) sacrifice() bool {
	removed := false
	err := s.remove(func(all []segment, _ uint64) (int, int) {
		from := s.headSegments(all)
		if removed = from+1 < len(all); !removed {
			return from, from
		}
		return from, from + 1
	})
	return removed && err == nil
}

// headSegments returns how many of the segments are the head.
func (s *Stream) headSegments(all []segment) int {
	end := uint64(0)
	for i, one := range all {
		if one.from != end || one.from >= s.limits.Head {
			return i
		}
		end = one.to
	}
	return len(all)
}

// remove removes the segments that choose returns.
func (s *Stream) remove(choose func(all []segment, total uint64) (from, to int)) error {
	s.mu.Lock()
	from, to := choose(s.segments, s.total)
	removed := slices.Clone(s.segments[from:to])
	s.segments = slices.Delete(s.segments, from, to)
	s.mu.Unlock()
	var errs []error
	for _, one := range removed {
		if err := os.Remove(s.path(one.from)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Stream) path(from uint64) string { return filepath.Join(s.dir, fmt.Sprintf("%020d", from)) }

// Extent returns what exists of the stream now.
func (s *Stream) Extent() Extent {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := Extent{Total: s.total}
	for i, one := range s.segments {
		if one.from != e.Head {
			e.TailFrom = s.segments[i].from
			return e
		}
		e.Head = one.to
	}
	e.TailFrom = s.total
	return e
}

// Close ends the stream: readers that follow it end when they have read all of it. total is the exact total, if more
// bytes than Append has received were lost; else 0.
func (s *Stream) Close(total uint64) error {
	err := s.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total, s.closed = max(s.total, total), true
	s.changed.Send()
	return err
}

// Remove deletes a stream that is closed: all of its bytes are lost.
func (s *Stream) Remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments = nil
	s.changed.Send()
	return os.RemoveAll(s.dir)
}
