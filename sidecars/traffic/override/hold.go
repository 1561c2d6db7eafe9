package override

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// MaxBody is how much of a request's body is held.
const MaxBody = 1 << 20

// MaxHeld is how much of bodies all requests of a Server hold at once.
const MaxHeld = 16 << 20

// share is what one request holds of MaxHeld; nil: it has no bound.
type share struct {
	all  *atomic.Int64
	held int64
}

// take reports whether there is room for n more bytes, which it holds then.
func (s *share) take(n int) bool {
	if s == nil {
		return true
	}
	if s.all.Add(int64(n)) > MaxHeld {
		s.all.Add(-int64(n))
		return false
	}
	s.held += int64(n)
	return true
}

// end ends the share.
func (s *share) end() { s.all.Add(-s.held) }

// piece is the result of one read of a body.
type piece struct {
	data []byte
	err  error
}

// body is a body that is read ahead: held has its beginning, and the rest comes from pieces.
type body struct {
	source io.Closer
	held   bytes.Buffer
	err    error // after held
	pieces chan piece
	closed chan struct{}
	close  func()
}

// readAhead begins to read a body.
func readAhead(from io.ReadCloser) *body {
	b := &body{source: from, pieces: make(chan piece), closed: make(chan struct{})}
	b.close = sync.OnceFunc(func() { close(b.closed) })
	go func() {
		for {
			p := piece{data: make([]byte, 16<<10)}
			var n int
			n, p.err = from.Read(p.data)
			p.data = p.data[:n]
			select {
			case b.pieces <- p:
			case <-b.closed:
				return
			}
			if p.err != nil {
				return
			}
		}
	}()
	return b
}

// take adds a piece to held.
func (b *body) take(p piece) {
	_, _ = b.held.Write(p.data) // it returns no error
	b.err = p.err
}

// Read implements io.Reader.
func (b *body) Read(to []byte) (int, error) {
	if b.held.Len() == 0 && b.err == nil {
		select {
		case p := <-b.pieces:
			b.take(p)
		case <-b.closed:
			return 0, http.ErrBodyReadAfterClose
		}
	}
	if b.held.Len() > 0 {
		return b.held.Read(to)
	}
	return 0, b.err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.close()
	return b.source.Close()
}

// hold reads the body of a request that ends within MaxBody and its share, and in time if its length is unknown; otherwise the reason is one
// of policy.SkippedHeader, and the body of r continues from its beginning. An error is one of the caller.
func (o *Override) hold(r *http.Request) (held []byte, reason string, err error) {
	switch {
	case r.Header.Get("Upgrade") != "":
		return nil, reasonStream, nil
	case r.Body == nil || r.Body == http.NoBody:
		return nil, "", nil
	case r.ContentLength > MaxBody:
		return nil, reasonBody, nil
	}
	b := readAhead(r.Body)
	r.Body = b
	var late, silent <-chan time.Time
	if r.ContentLength < 0 {
		total := time.NewTimer(o.streams(streamTotal))
		defer total.Stop()
		late = total.C
	}
	for b.err == nil && b.held.Len() <= MaxBody {
		if late != nil {
			silent = time.After(o.streams(streamSilent))
		}
		select {
		case p := <-b.pieces:
			if b.take(p); !o.share.take(len(p.data)) {
				return nil, reasonBody, nil
			}
		case <-silent:
			return nil, reasonStream, nil
		case <-late:
			return nil, reasonStream, nil
		case <-r.Context().Done():
			b.close()
			return nil, "", r.Context().Err()
		}
	}
	switch {
	case b.err == nil:
		return nil, reasonBody, nil
	case !errors.Is(b.err, io.EOF):
		return nil, "", b.err // nothing reads on
	}
	return b.held.Bytes(), "", nil
}

// streamSilent is after how long without a byte, and streamTotal after how long at all, a body of unknown length that has
// not ended is a stream.
const streamSilent, streamTotal = 500 * time.Millisecond, 10 * time.Second

// streams returns a limit, or that of a test.
func (o *Override) streams(limit time.Duration) time.Duration {
	if o.Stream > 0 {
		return o.Stream
	}
	return limit
}
