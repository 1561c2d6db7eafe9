package traffic

import (
	"net"

	"golang.org/x/sys/unix"
)

// Alive reports whether the other side has not ended a connection, without reading from it.
func Alive(c net.Conn) bool {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	is := false
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		const established = 1
		is = err == nil && info.State == established
	})
	return err == nil && is
}
