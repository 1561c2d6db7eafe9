package archive

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

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
