package inbound

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// idleFor returns for how long a connection has neither sent nor received a byte, according to
// the kernel; 0 if that is unknown.
func idleFor(conn net.Conn) (idle time.Duration) {
	tcp, is := conn.(*net.TCPConn)
	if !is {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // a closed connection is not idle
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			idle = time.Duration(min(info.Last_data_recv, info.Last_data_sent)) * time.Millisecond
		}
	})
	return idle
}
