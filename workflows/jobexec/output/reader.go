package output

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

// Reader reads a stream from an offset. The caller closes it.
type Reader struct {
	stream *Stream
	offset uint64
	// file is the segment that begins at from.
	file *os.File
	from uint64
}

// Reader returns a reader that begins at an offset.
func (s *Stream) Reader(offset uint64) *Reader { return &Reader{stream: s, offset: offset} }

// Next reads the next bytes into p, and returns the offset of the first: a greater one than expected if bytes
// are lost. n is 0 only where bytes at the present end are lost. With follow it waits until there are bytes, or the
// stream is closed. The error is io.EOF at the end, that of ctx, or that of the disk.
func (r *Reader) Next(ctx context.Context, p []byte, follow bool) (offset uint64, n int, err error) {
	for removed := (segment{}); ; {
		changed := r.stream.changed.Next()
		found, one, ends := r.stream.find(r.offset)
		switch {
		case found:
			n, err = r.read(p, one)
			if errors.Is(err, fs.ErrNotExist) && removed != one {
				removed = one
				continue // it was removed in the meantime
			}
			offset = max(r.offset, one.from)
			r.offset = offset + uint64(n)
			return offset, n, err
		case one.to > r.offset:
			r.offset = one.to
			return r.offset, 0, nil
		case ends || !follow:
			return r.offset, 0, io.EOF
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return r.offset, 0, ctx.Err()
		}
	}
}

// read reads bytes of a segment.
func (r *Reader) read(p []byte, one segment) (int, error) {
	if r.file == nil || r.from != one.from {
		if err := r.Close(); err != nil {
			return 0, err
		}
		f, err := os.Open(r.stream.path(one.from))
		if err != nil {
			return 0, err
		}
		r.file, r.from = f, one.from
	}
	at := max(r.offset, one.from)
	n, err := r.file.ReadAt(p[:min(uint64(len(p)), one.to-at)], int64(at-one.from)) //nolint:gosec // less than a segment
	if n > 0 {
		err = nil
	}
	return n, err
}

// Close closes the reader.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	defer func() { r.file = nil }()
	return r.file.Close()
}

// find returns the segment with the byte at an offset, or the first one after it. If there is none, the segment
// ends at the total. ends reports whether the stream is closed.
func (s *Stream) find(offset uint64) (found bool, one segment, ends bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.segments {
		if offset < one.to {
			return true, one, s.closed
		}
	}
	return false, segment{s.total, s.total}, s.closed
}

// TailLines returns the offset where the last lines of the stream begin, as far as they are kept without a gap.
func (s *Stream) TailLines(ctx context.Context, lines uint64) (uint64, error) {
	e := s.Extent()
	from := uint64(0)
	if e.TailFrom > e.Head {
		from = e.TailFrom
	}
	at, err := Tail(from, e.Total, lines, func(at uint64, p []byte) error {
		r := s.Reader(at)
		got, n, err := r.Next(ctx, p, false)
		for more := 0; err == nil && got == at && n < len(p); n += more {
			if _, more, err = r.Next(ctx, p[n:], false); more == 0 {
				break
			}
		}
		if err = errors.Join(err, r.Close()); err == nil && (got != at || n != len(p)) {
			err = errRemoved
		}
		return err
	})
	if errors.Is(err, errRemoved) {
		err = nil
	}
	return at, err
}

// errRemoved is that of bytes which were removed in the meantime.
var errRemoved = errors.New("the bytes were removed")

// Tail returns the offset where the last lines before end begin, and not before from. read reads all bytes of p at an offset; with
// its error the offset is that of what was read before.
func Tail(from, end, lines uint64, read func(at uint64, p []byte) error) (uint64, error) {
	if lines == 0 {
		return end, nil
	}
	block := make([]byte, 64<<10)
	for at := end; at > from; {
		size := min(uint64(len(block)), at-from)
		at -= size
		part := block[:size]
		if err := read(at, part); err != nil {
			return at + size, err
		}
		if at+size == end {
			part = bytes.TrimSuffix(part, []byte("\n"))
		}
		for i := bytes.LastIndexByte(part, '\n'); i >= 0; i = bytes.LastIndexByte(part, '\n') {
			if lines--; lines == 0 {
				return at + uint64(i) + 1, nil
			}
			part = part[:i]
		}
	}
	return from, nil
}
