// Package join makes one connection of two: bytes go both ways, an end of file goes on alone,
// and what breaks one breaks the other.
package join

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// Ended is how a joined connection ended.
type Ended struct {
	// There is how many bytes went from the first to the second, Back those of the other way.
	There, Back int64
	// Err is what broke it; nil when both sides had said all.
	Err error
}

// Both copies between two connections until both have ended, or one breaks, and closes them.
// One that breaks has the other cut, never ended: nobody takes half of an answer for the whole.
func Both(a, b net.Conn) Ended {
	type half struct {
		n    int64
		err  error
		back bool
	}
	halves := make(chan half, 2)
	pass := func(to, from net.Conn, back bool) {
		n, err := io.Copy(to, from)
		if err == nil {
			err = closeWrite(to)
		}
		if err != nil {
			Cut(a)
			Cut(b)
		}
		halves <- half{n, err, back}
	}
	go pass(b, a, false)
	go pass(a, b, true)
	var out Ended
	for range 2 {
		h := <-halves
		if h.back {
			out.Back = h.n
		} else {
			out.There = h.n
		}
		if out.Err == nil {
			out.Err = h.err // The first is the cause.
		}
	}
	_, _ = a.Close(), b.Close()
	return out
}

// closeWrite ends what is written to a connection, where it can end apart from what is read.
func closeWrite(c net.Conn) error {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return nil
	}
	// Of a peer that is gone already the other half tells.
	if err := half.CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.ENOTCONN) {
		return err
	}
	return nil
}

// Cut ends a connection such that its peer sees an error, and no end of file.
func Cut(c net.Conn) {
	if stream, ok := c.(interface{ Cut() }); ok {
		stream.Cut()
	}
	if tcp, ok := c.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0) // Close sends a reset.
	}
	_ = c.Close()
}
