package preview

import (
	"errors"
	"io"
	"sync"
)

// upload is the body of a request. While a part is written the next one is read, up to the size of a buffer, and each
// write has all that was read: the link carries large parts with less work than small ones.
type upload struct {
	io.ReadCloser
	pool *buffers
}

// WriteTo implements io.WriterTo, which net/http uses for a body without a length.
func (u upload) WriteTo(w io.Writer) (int64, error) {
	b := &between{buffer: u.pool.Get()}
	b.moved.L = &b.mu
	go b.fill(u.ReadCloser)
	n, err := b.drain(w)
	if err == nil { // else it is read into
		u.pool.Put(b.buffer)
	}
	return n, err
}

// between is a ring of the bytes that were read and not yet written.
type between struct {
	buffer []byte

	mu    sync.Mutex
	moved sync.Cond
	// read and written are the bytes so far, and err ends the reader. stopped: nothing more is written.
	read, written int
	err           error
	stopped       bool
}

// fill reads until the end of the body, or until drain has stopped.
func (b *between) fill(r io.Reader) {
	for err := error(nil); err == nil; {
		room := b.room()
		if room == nil {
			return
		}
		var n int
		n, err = r.Read(room)
		b.mu.Lock()
		b.read, b.err = b.read+n, err
		b.moved.Signal()
		b.mu.Unlock()
	}
}

// room waits for room for the next part; nil: drain has stopped.
func (b *between) room() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.read-b.written == len(b.buffer) && !b.stopped {
		b.moved.Wait()
	}
	if b.stopped {
		return nil
	}
	return b.from(b.read, len(b.buffer)-(b.read-b.written))
}

// from returns up to n bytes of the ring from a position, without those beyond its end.
func (b *between) from(at, n int) []byte {
	at %= len(b.buffer)
	return b.buffer[at:min(at+n, len(b.buffer))]
}

// drain writes all that is read.
func (b *between) drain(w io.Writer) (int64, error) {
	for {
		part, err := b.part()
		if len(part) == 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return int64(b.written), err
		}
		n, failed := w.Write(part)
		b.mu.Lock()
		b.written, b.stopped = b.written+n, failed != nil
		b.moved.Signal()
		b.mu.Unlock()
		if failed != nil {
			return int64(b.written), failed
		}
	}
}

// part waits for the next part to write; none: the reader has ended with the error.
func (b *between) part() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.read == b.written && b.err == nil {
		b.moved.Wait()
	}
	return b.from(b.written, b.read-b.written), b.err
}
