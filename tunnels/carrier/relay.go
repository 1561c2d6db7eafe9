package carrier

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
)

// relayBuffer is the size of one copy: the payload of a full frame, which with its header fills
// two TLS records. A connection has a buffer only while it copies.
const relayBuffer = maxFrame - headerBytes

var relayBuffers = sync.Pool{New: func() any { return new([relayBuffer]byte) }}

// Relay copies bytes between two connections, one of them usually a Stream, until both sides have
// ended, and closes both. The end of one side is a CloseWrite on the other; any error cuts both,
// so that neither side takes it for an end: a Stream by Cut, a TCP connection by a reset. It
// returns the number of bytes in each direction, and the error. An argument need not be a
// net.Conn; if it has a CloseWrite, that is used.
func Relay(a, b io.ReadWriteCloser) (fromA, fromB int64, err error) {
	var once sync.Once
	sever := func(why error) {
		once.Do(func() {
			err = why
			cut(a)
			cut(b)
		})
	}
	for _, c := range []io.Closer{a, b} {
		if s, is := c.(*Stream); is {
			s.whenCut(func() { go sever(ErrCut) })
			defer s.whenCut(nil)
		}
	}
	var other sync.WaitGroup
	other.Go(func() { fromB = carry(a, b, sever) })
	fromA = carry(b, a, sever)
	other.Wait()
	once.Do(func() { err = errors.Join(a.Close(), b.Close()) })
	return fromA, fromB, err
}

// carry copies in one direction until the end or an error, and passes either on.
func carry(to io.WriteCloser, from io.Reader, sever func(error)) (n int64) {
	read := reader(from)
	for {
		buf, count, err := read()
		if count > 0 {
			wrote, failed := to.Write(buf[:count])
			n += int64(wrote)
			if failed != nil {
				err = failed
			}
		}
		if buf != nil {
			relayBuffers.Put(buf)
		}
		switch {
		case errors.Is(err, io.EOF):
			if err := closeWrite(to); err != nil {
				sever(err)
			}
			return n
		case err != nil:
			sever(err)
			return n
		}
	}
}

// reader returns a function that reads from a connection into a buffer of relayBuffers, which it
// allocates only when there is data.
func reader(from io.Reader) func() (*[relayBuffer]byte, int, error) {
	switch c := from.(type) {
	case *Stream:
		return func() (*[relayBuffer]byte, int, error) {
			if _, err := c.Read(nil); err != nil {
				return nil, 0, err
			}
			buf := relayBuffers.Get().(*[relayBuffer]byte)
			n, err := c.Read(buf[:])
			return buf, n, err
		}
	case *net.TCPConn:
		if raw, err := c.SyscallConn(); err == nil && runtime.GOOS != "windows" {
			return func() (*[relayBuffer]byte, int, error) { return readWhenThere(raw) }
		}
	}
	return func() (*[relayBuffer]byte, int, error) {
		buf := relayBuffers.Get().(*[relayBuffer]byte)
		n, err := from.Read(buf[:])
		return buf, n, err
	}
}

// closeWrite closes one direction, or the whole connection if it has no CloseWrite.
func closeWrite(c io.Closer) error {
	if half, can := c.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return c.Close()
}

// cut ends a connection so that the other side sees an error.
func cut(c io.Closer) {
	switch c := c.(type) {
	case *Stream:
		c.Cut()
		return
	case *net.TCPConn:
		_ = c.SetLinger(0)
	}
	_ = c.Close()
}
