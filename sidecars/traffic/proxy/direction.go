package proxy

import (
	"errors"
	"sync"
	"sync/atomic"
	"unsafe"

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

// transfer receives or sends bytes without waiting: then the error is EAGAIN. It is no blocking call for the scheduler, which would
// wake a thread for it when the process was idle. n is 0 after an error.
func transfer(call, fd uintptr, b []byte) (n int, err error) {
	for {
		n, _, errno := unix.RawSyscall6(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0) //nolint:gosec // that many bytes
		switch errno {
		case 0:
			return int(n), nil //nolint:gosec // at most len(b)
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
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

// copy copies until the end of the stream, or an error of either end. Bytes are offered to parse before they are passed on, and
// read by it after that. If the other end takes them later, they are read before.
func (d *direction) copy() (readErr, writeErr error) {
	from, err := d.from.SyscallConn()
	to, also := d.to.SyscallConn()
	if err := errors.Join(err, also); err != nil {
		return err, nil
	}
	var buffer *[size]byte
	var n, written int
	read := func(fd uintptr) bool {
		buffer = buffers.Get().(*[size]byte)
		n, readErr = transfer(unix.SYS_RECVFROM, fd, buffer[:])
		if errors.Is(readErr, unix.EAGAIN) {
			buffers.Put(buffer)
			buffer = nil
			return false
		}
		return true
	}
	write := func(fd uintptr) bool {
		written, _ = transfer(unix.SYS_SENDTO, fd, buffer[:n])
		return true
	}
	for {
		if err := from.Read(read); err != nil {
			return err, nil
		}
		if n > 0 {
			if d.begins != nil {
				d.begins()
				d.begins = nil
			}
			d.conn.Offer(d.side, buffer[:n])
			written = 0
			writeErr = to.Write(write)
			d.conn.Settle()
			if written < n && writeErr == nil {
				_, writeErr = d.to.Write(buffer[written:n])
			}
		}
		buffers.Put(buffer)
		if n <= 0 || readErr != nil || writeErr != nil {
			return readErr, writeErr
		}
	}
}
