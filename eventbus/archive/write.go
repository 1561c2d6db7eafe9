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

	"switchyard.dev/eventbus"
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

// maxLine bounds a line: the largest event, with every byte escaped twice over.
const maxLine = 16 * eventbus.MaxEvent

// Error reports a defect of a line of an archive.
type Error struct {
	// Line counts from 1, which is the header. An error there means that the file is not an
	// archive, or not of a version that this program reads.
	Line uint64
	// Reason is why it does not read.
	Reason error
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("line %d of the archive: %v", e.Line, e.Reason) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Reason }

// Reader reads an archive, line by line.
type Reader struct {
	header Header
	in     *bufio.Reader
	line   uint64
	close  func() error
}

// NewReader reads the first line. The error is an *Error.
func NewReader(r io.Reader) (*Reader, error) {
	a := &Reader{in: bufio.NewReaderSize(r, 64<<10), close: func() error { return nil }}
	first, err := a.read()
	if err == nil {
		a.header, err = parseHeader(first)
	}
	if err != nil {
		return nil, a.at(notEOF(err))
	}
	return a, nil
}

// OpenFile opens an archive in a file, compressed when its name ends in .gz. The
// caller closes it.
func OpenFile(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read an archive: %w", err)
	}
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			err = &Error{Line: 1, Reason: fmt.Errorf("the file name ends in .gz, but the file is not compressed: %w", err)}
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
		}
	}
	a, err := NewReader(in)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	a.close = f.Close
	return a, nil
}

// Header returns the header of the archive.
func (a *Reader) Header() Header { return a.header }

// Next returns the event of the next line, or io.EOF after the last one. Any other error is an
// *Error. Next does not verify that the event belongs to the log.
func (a *Reader) Next() (event.Stored, error) {
	b, err := a.read()
	if errors.Is(err, io.EOF) {
		return event.Stored{}, io.EOF
	}
	if err != nil {
		return event.Stored{}, a.at(err)
	}
	s, err := event.ParseStructured(b, a.header.Epoch)
	if err != nil {
		return event.Stored{}, a.at(err)
	}
	return s, nil
}

// Close closes the file of OpenFile.
func (a *Reader) Close() error { return a.close() }

func (a *Reader) at(err error) error { return &Error{Line: a.line, Reason: err} }

// read returns the next line without its end; io.EOF when there is none.
func (a *Reader) read() ([]byte, error) {
	var whole []byte
	a.line++
	for {
		part, err := a.in.ReadSlice('\n')
		if len(whole)+len(part) > maxLine {
			return nil, fmt.Errorf("it is longer than any event: over %d bytes", maxLine)
		}
		whole = append(whole, part...)
		switch {
		case err == nil:
			return whole[:len(whole)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(whole) == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, errors.New("it is truncated: the line has no end")
		default:
			return nil, fmt.Errorf("the file cannot be read further: %w", err)
		}
	}
}

func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the file is empty")
	}
	return err
}
