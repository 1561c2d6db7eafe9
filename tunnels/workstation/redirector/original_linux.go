package redirector

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// Original returns the original destination of a redirected connection. local is its address
// here: a connection that was made to that address directly is an error.
func Original(c syscall.Conn, local netip.AddrPort) (to netip.AddrPort, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return to, err
	}
	local = netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
	var got error
	err = raw.Control(func(fd uintptr) {
		if local.Addr().Is4() {
			// The type of a group's address has the size of a sockaddr_in: family, port, address.
			var in *unix.IPv6Mreq
			if in, got = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST); got == nil {
				to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(in.Multiaddr[4:8])), binary.BigEndian.Uint16(in.Multiaddr[2:4]))
			}
			return
		}
		// This type begins with a sockaddr_in6.
		var in *unix.IPv6MTUInfo
		if in, got = unix.GetsockoptIPv6MTUInfo(int(fd), unix.IPPROTO_IPV6, unix.SO_ORIGINAL_DST); got == nil {
			var port [2]byte
			binary.NativeEndian.PutUint16(port[:], in.Addr.Port)
			to = netip.AddrPortFrom(netip.AddrFrom16(in.Addr.Addr), binary.BigEndian.Uint16(port[:]))
		}
	})
	if err == nil {
		err = got
	}
	if err != nil {
		return to, fmt.Errorf("the kernel returned no original destination of the connection: %w", err)
	}
	if to == local {
		return to, fmt.Errorf("the connection was not redirected: %s is not an address of the cluster", to)
	}
	return to, nil
}

// Pass is the Control of a net.Dialer, which exempts its connections from the rules.
func Pass(_, _ string, c syscall.RawConn) error {
	var got error
	err := c.Control(func(fd uintptr) { got = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, Mark) })
	if err == nil {
		err = got
	}
	if err != nil {
		return fmt.Errorf("set the mark of a connection, which requires CAP_NET_ADMIN: %w", err)
	}
	return nil
}
