package proxy

import (
	"errors"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"switchyard.dev/sidecars/traffic/parse"
)

// size is that of a buffer.
const size = 32 << 10

var buffers = sync.Pool{New: func() any { return new([size]byte) }}

// direction passes the bytes of one end on to the other.
type direction struct {
	from, to Conn
	side     parse.Side
	conn     *parse.Conn
	// first has why the direction ended that did so first.
	first *atomic.Pointer[string]
	// begins is called at the first bytes, and is nil then.
	begins func()
}

// pass copies until the end. An end of the stream is passed on. When reading fails, the other end is reset; when writing
// does, that end has failed or closed, and the other direction reads its last bytes first.
func (d *direction) pass() {
	readErr, writeErr := d.copy()
	why := "closed by the " + d.side.String()
	switch {
	case readErr != nil:
		why = "reset by the " + d.side.String()
	case writeErr != nil:
		why = "closed by the " + (1 - d.side).String()
	default:
		d.conn.EOF(d.side)
	}
	d.first.CompareAndSwap(nil, &why)
	if readErr != nil {
		cut(d.to)
	} else if writeErr == nil {
		_ = d.to.CloseWrite() // it has ended already, or the other direction finds out
	}
}

// copy copies until the end of the stream, or an error of either end. Bytes are read by parse before they are passed on, so
// that their answer finds them.
func (d *direction) copy() (readErr, writeErr error) {
	raw, err := d.from.SyscallConn()
	if err != nil {
		return err, nil
	}
	var buffer *[size]byte
	var n int
	attempt := func(fd uintptr) bool {
		buffer = buffers.Get().(*[size]byte)
		for {
			if n, readErr = unix.Read(int(fd), buffer[:]); !errors.Is(readErr, unix.EINTR) {
				break
			}
		}
		if errors.Is(readErr, unix.EAGAIN) {
			buffers.Put(buffer)
			return false
		}
		return true
	}
	for {
		if err := raw.Read(attempt); err != nil {
			return err, nil
		}
		if n > 0 {
			if d.begins != nil {
				d.begins()
				d.begins = nil
			}
			d.conn.Read(d.side, buffer[:n])
			_, writeErr = d.to.Write(buffer[:n])
		}
		buffers.Put(buffer)
		if n <= 0 || readErr != nil || writeErr != nil {
			return readErr, writeErr
		}
	}
}
