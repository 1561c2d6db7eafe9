//go:build unix

package carrier

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// readWhenThere reads a socket into a buffer that it allocates once there is data.
func readWhenThere(raw syscall.RawConn) (buf *[relayBuffer]byte, n int, err error) {
	waited := raw.Read(func(fd uintptr) bool {
		buf = relayBuffers.Get().(*[relayBuffer]byte)
		for {
			n, err = syscall.Read(int(fd), buf[:])
			if !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		if errors.Is(err, syscall.EAGAIN) {
			relayBuffers.Put(buf)
			buf = nil
			return false
		}
		return true
	})
	switch {
	case waited != nil:
		return nil, 0, waited
	case err != nil:
		return buf, 0, os.NewSyscallError("read", err)
	case n == 0:
		return buf, 0, io.EOF
	}
	return buf, n, nil
}
