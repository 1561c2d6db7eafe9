package archive

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"switchyard.dev/eventbus/event"
)

// Writer writes an archive. Make one with NewWriter or Create, give it every
// event in order, and Close it.
type Writer struct {
	header Header
	out    *bufio.Writer
	next   uint64
	line   []byte
	failed error
	// finish closes the layers below out: compression, a file.
	finish func(whole bool) error
}

// NewWriter begins an archive.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	if err := h.Validate(); err != nil {
		return nil, err
	}
	first, err := h.written()
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriter(w)
	_, err = out.Write(first)
	return &Writer{header: h, out: out, next: h.Floor, finish: func(bool) error { return nil }}, err
}

// Create begins an archive in a file, compressed when its name ends in .gz. The file appears
// under its name when Close succeeds, and then replaces an earlier one.
func Create(path string, h Header) (*Writer, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".archive-*")
	if err != nil {
		return nil, fmt.Errorf("write an archive: %w", err)
	}
	var below io.WriteCloser = f
	if strings.HasSuffix(path, ".gz") {
		below = gzip.NewWriter(f)
	}
	w, err := NewWriter(below, h)
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	w.finish = func(whole bool) error {
		err := error(nil)
		if below != io.WriteCloser(f) {
			err = below.Close()
		}
		if whole && err == nil {
			err = errors.Join(f.Chmod(0o644), f.Sync())
		}
		err = errors.Join(err, f.Close())
		if !whole || err != nil {
			return errors.Join(err, os.Remove(f.Name()))
		}
		return os.Rename(f.Name(), path)
	}
	return w, nil
}

// Write adds the next event. An error when it is not the one behind the last.
func (w *Writer) Write(s event.Stored) error {
	switch {
	case w.failed != nil:
		return w.failed
	case s.Pos.Epoch != w.header.Epoch:
		w.failed = fmt.Errorf("event %d is of epoch %s, the archive of %s", s.Pos.Seq, s.Pos.Epoch, w.header.Epoch)
	case s.Pos.Seq != w.next || s.Pos.Seq > w.header.Tip:
		w.failed = fmt.Errorf("event %d was given where event %d of %d to %d belongs", s.Pos.Seq, w.next, w.header.Floor, w.header.Tip)
	default:
		w.line = append(event.AppendStructured(w.line[:0], s), '\n')
		_, w.failed = w.out.Write(w.line)
		w.next++
	}
	return w.failed
}

// Close ends the archive. An error when events are missing at its end or it
// could not be written; then Create has left no file.
func (w *Writer) Close() error {
	err := w.failed
	if err == nil && w.next <= w.header.Tip {
		err = fmt.Errorf("the archive ends before event %d and is to reach event %d", w.next, w.header.Tip)
	}
	if err == nil {
		err = w.out.Flush()
	}
	return errors.Join(err, w.finish(err == nil))
}
