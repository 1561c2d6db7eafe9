package results

import (
	"context"
	"errors"
	"io"

	"switchyard.dev/workflows/jobexec/output"
)

// block is how many bytes are read at once.
const block = 64 << 10

// Read calls write with the bytes of a file, from an offset or with lines from the last ones on. Those of an output stream
// are at their offsets in it: bytes that are lost are left out, with their marker. An error of write is returned.
func (k *Kept) Read(ctx context.Context, org, job string, f *File, offset, lines uint64, write func(offset uint64, data []byte) error) error {
	file, err := k.Open(ctx, org, job, f)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	if lines > 0 {
		if offset, err = tail(file, f, lines); err != nil {
			return err
		}
	}
	buffer := make([]byte, block)
	for _, part := range parts(f) {
		at := max(offset, part.from)
		if at >= part.to {
			continue
		}
		if _, err := file.Seek(part.at+int64(at-part.from), io.SeekStart); err != nil { //nolint:gosec // less than the size of a file
			return err
		}
		for from := io.LimitReader(file, int64(part.to-at)); ; { //nolint:gosec // less than the size of a file
			n, err := from.Read(buffer)
			if n > 0 {
				if err := write(at, buffer[:n]); err != nil {
					return err
				}
				at += uint64(n) //nolint:gosec // not negative
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
		}
	}
	return nil
}

// part are bytes of a stream from an offset to another one, which are at a place of its file.
type part struct {
	from, to uint64
	at       int64
}

// parts returns the parts of a file: the one before the bytes that are lost, and the one after them.
func parts(f *File) []part {
	if f.TailFrom == 0 {
		return []part{{0, uint64(f.Size), 0}} //nolint:gosec // the size of a file
	}
	after := int64(f.Head) + int64(f.Marker)                                              //nolint:gosec // less than the size of a file
	return []part{{0, f.Head, 0}, {f.TailFrom, f.TailFrom + uint64(f.Size-after), after}} //nolint:gosec // less than the size of a file
}

// tail returns the offset at which the last lines of a stream begin, among the bytes after those that are lost.
func tail(file io.ReadSeeker, f *File, lines uint64) (uint64, error) {
	all := parts(f)
	last := all[len(all)-1]
	return output.Tail(last.from, last.to, lines, func(at uint64, p []byte) error {
		_, err := file.Seek(last.at+int64(at-last.from), io.SeekStart) //nolint:gosec // less than the size of a file
		if err == nil {
			_, err = io.ReadFull(file, p)
		}
		return err
	})
}
