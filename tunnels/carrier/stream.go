package carrier

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-yamux/v5"
)

// Stream is one connection through the tunnel. Open and Incoming.Accept return it as a net.Conn.
type Stream struct {
	mux     *yamux.Stream
	session *Session
	gone    func() // removes it from the session; once

	reading  sync.Mutex
	writing  sync.Mutex
	deadline struct {
		sync.Mutex
		read time.Time
	}
	ended  atomic.Bool // the end of the other side was read
	closed atomic.Bool
	once   sync.Once
	left   chan struct{} // closed once it is removed from the counts

	notifying sync.Mutex
	notified  bool   // it was cut
	cut       func() // called when it is, once
}

// newStream returns a stream of a session. gone is called once it is closed or cut.
func newStream(mux *yamux.Stream, session *Session, gone func()) *Stream {
	s := &Stream{mux: mux, session: session, gone: gone, left: make(chan struct{})}
	session.wire.meter.join(mux.StreamID(), s)
	session.shared().streams.Add(1)
	return s
}

// whenCut sets a function that is called once the stream is cut, by the other side or with the
// session. The function must not block.
func (s *Stream) whenCut(do func()) {
	s.notifying.Lock()
	s.cut = do
	notified := s.notified
	s.notifying.Unlock()
	if notified && do != nil {
		do()
	}
}

// notify calls the function of whenCut, once.
func (s *Stream) notify() {
	s.notifying.Lock()
	do, notified := s.cut, s.notified
	s.notified = true
	s.notifying.Unlock()
	if !notified && do != nil {
		do()
	}
}

// leave removes the stream from the counts.
func (s *Stream) leave() {
	s.once.Do(func() {
		s.session.wire.meter.leave(s.mux.StreamID())
		s.session.shared().streams.Add(-1)
		close(s.left)
		s.gone()
	})
}

// Read implements net.Conn. Read of an empty slice returns once there is data.
func (s *Stream) Read(b []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	// The multiplexer loses credit that it owes the other side when a deadline passes between a
	// read and the update of the window. So this waits under the deadline, and reads without one.
	if _, err := s.mux.Read(nil); err != nil {
		return 0, s.failed(err)
	}
	if len(b) == 0 {
		return 0, nil
	}
	s.deadline.Lock()
	defer s.deadline.Unlock()
	if until := s.deadline.read; !until.IsZero() {
		if !time.Now().Before(until) {
			return 0, os.ErrDeadlineExceeded
		}
		_ = s.mux.SetReadDeadline(time.Time{})
		defer func() { _ = s.mux.SetReadDeadline(until) }()
	}
	n, err := s.mux.Read(b)
	if n > 0 {
		s.session.wire.meter.read(s.mux.StreamID(), n)
		return n, nil // the next read returns an error of the window update
	}
	return n, s.failed(err)
}

func (s *Stream) failed(err error) error {
	if err == io.EOF {
		s.ended.Store(true)
	}
	if s.closed.Load() {
		return net.ErrClosed
	}
	return streamError(err)
}

// Write implements net.Conn. After the bytes are queued, it can wait for the session's connection to take
// others: a deadline does not end that, but Close, Cut and the end of the session do.
func (s *Stream) Write(b []byte) (n int, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	for {
		wrote, err := s.mux.Write(b[n:min(len(b), n+relayBuffer)])
		n += wrote
		s.session.wire.queue(wrote, s.left, s.session.done)
		if err != nil {
			return n, s.failed(err)
		}
		if n == len(b) {
			return n, nil
		}
	}
}

// CloseWrite closes the sending side. The other side reads io.EOF after the data.
func (s *Stream) CloseWrite() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return streamError(s.mux.CloseWrite())
}

// Close ends the sending side, as CloseWrite does, and reads no more: from then on the other
// side's writes fail with ErrCut. It does not wait for a Write; how much of a concurrent Write
// arrives is undefined.
func (s *Stream) Close() error {
	s.closed.Store(true)
	err := s.mux.CloseWrite()
	if !s.ended.Load() {
		_ = s.mux.Reset()
	}
	s.leave()
	if errors.Is(streamError(err), ErrCut) {
		return nil // it is closed all the same
	}
	return streamError(err)
}

// Cut aborts the stream: reads and writes fail with ErrCut, here and at the other side.
func (s *Stream) Cut() {
	_ = s.mux.Reset()
	s.leave()
	s.notify()
}

// LocalAddr implements net.Conn: the address of the session's connection.
func (s *Stream) LocalAddr() net.Addr { return s.session.wire.LocalAddr() }

// RemoteAddr implements net.Conn: the address of the session's connection.
func (s *Stream) RemoteAddr() net.Addr { return s.session.wire.RemoteAddr() }

// SetDeadline implements net.Conn.
func (s *Stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (s *Stream) SetReadDeadline(t time.Time) error {
	s.deadline.Lock()
	defer s.deadline.Unlock()
	s.deadline.read = t
	return s.mux.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	return s.mux.SetWriteDeadline(t)
}
