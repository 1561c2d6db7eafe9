package results

import (
	"context"
	"errors"
	"io"
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
	buffer := make([]byte, block)
	for to := last.to; to > last.from; {
		from := max(last.from, to-min(to, uint64(len(buffer))))
		if _, err := file.Seek(last.at+int64(from-last.from), io.SeekStart); err != nil { //nolint:gosec // less than the size of a file
			return 0, err
		}
		if _, err := io.ReadFull(file, buffer[:to-from]); err != nil {
			return 0, err
		}
		for i := int(to-from) - 1; i >= 0; i-- { //nolint:gosec // at most the size of the buffer
			if at := from + uint64(i) + 1; buffer[i] == '\n' && at != last.to { //nolint:gosec // not negative
				if lines--; lines == 0 {
					return at, nil
				}
			}
		}
		to = from
	}
	return last.from, nil
}
