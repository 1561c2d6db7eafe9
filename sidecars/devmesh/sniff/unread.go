package sniff

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unread is a connection from Envoy with bytes that stay in the kernel while they are
// inspected, until take.
//
// Envoy passes an orderly end on to the client and keeps its own half of that connection,
// which counts among all, for as long as the client likes. Closing an unread connection
// resets it (unix(7): there is always the PROXY header to be read), and then Envoy closes
// the client's as well.
type unread struct {
	*net.UnixConn

	raw  syscall.RawConn
	seen int64
}

func leaveUnread(c *net.UnixConn) (*unread, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEEK_OFF, 0)
	}); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, fmt.Errorf("inspect a connection from Envoy: %w", failed)
	}
	return &unread{UnixConn: c, raw: raw}, nil
}

// Read returns the bytes after those that earlier calls have returned.
func (u *unread) Read(b []byte) (int, error) {
	var n int
	var failed error
	err := u.raw.Read(func(fd uintptr) (done bool) {
		n, _, failed = unix.Recvfrom(int(fd), b, unix.MSG_PEEK)
		return failed != unix.EAGAIN
	})
	if err := cmp.Or(err, failed); err != nil {
		return 0, err
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	u.seen += int64(n)
	return n, nil
}

// take consumes the bytes that Read has returned. It returns the connection, at the next byte.
func (u *unread) take() (*net.UnixConn, error) {
	_, err := io.CopyN(io.Discard, u.UnixConn, u.seen)
	return u.UnixConn, err
}
