package routing

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// listenRedirected opens the listeners of redirected connections at a port of the loopback addresses; that of IPv6 is left
// out in a pod without it.
func listenRedirected(port int) (out []net.Listener, err error) {
	four, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen for redirected connections: %w", err)
	}
	six, err := net.Listen("tcp6", net.JoinHostPort("::1", strconv.Itoa(port)))
	switch {
	case err == nil:
		return []net.Listener{four, six}, nil
	case errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.EAFNOSUPPORT):
		return []net.Listener{four}, nil
	}
	return nil, errors.Join(fmt.Errorf("listen for redirected connections: %w", err), four.Close())
}

// serveRedirected serves redirected connections until ctx ends, and cuts them then.
func (p *Proxy) serveRedirected(ctx context.Context, l net.Listener) error {
	var all sync.WaitGroup
	defer all.Wait()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept redirected connections: %w", err)
		}
		ended := sync.OnceFunc(func() { <-p.slots })
		all.Go(func() {
			if !p.redirected(ctx, c, ended) {
				ended()
			}
		})
	}
}

// redirected serves one redirected connection: its requests get the key of the execution that runs when it begins. Without
// one it is copied. A server that cannot be reached resets it. It returns true if the connection goes on, and ended is
// called at its end.
func (p *Proxy) redirected(ctx context.Context, c net.Conn, ended func()) bool {
	client := &end{c, c}
	to, err := destination(c)
	if err != nil || to == c.LocalAddr().String() { // it was not redirected
		client.cut()
		return false
	}
	there, err := p.dial(ctx, "tcp", to)
	if err != nil {
		client.cut()
		return false
	}
	server := &end{there, there}
	stop := context.AfterFunc(ctx, func() { _ = errors.Join(c.Close(), there.Close()) })
	defer stop()
	e := p.now.Load()
	if e == nil {
		pipe(client, server)
		return false
	}
	from := bufio.NewReaderSize(c, sniffBytes)
	client.from, server.from = from, bufio.NewReaderSize(there, 512)
	what := first(client, server)
	if start, _ := from.Peek(from.Buffered()); what == http1 && absolute(start) {
		what = other // it is for another proxy
	}
	return p.open(tunnel{end: *client, to: to, execution: e, ended: ended}, server, what, stop)
}

// destination returns the address that a connection was opened to, before it was redirected.
func destination(c net.Conn) (to string, err error) {
	tcp, is := c.(*net.TCPConn)
	if !is {
		return "", errors.New("the connection is not one of TCP")
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return "", err
	}
	const originalDst = 80 // SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST
	four := tcp.LocalAddr().(*net.TCPAddr).IP.To4() != nil
	controlled := raw.Control(func(fd uintptr) {
		if four { // a struct sockaddr_in fits into that of another option
			var a *unix.IPv6Mreq
			if a, err = unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, originalDst); err == nil {
				b := a.Multiaddr
				to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3])).String()
			}
			return
		}
		var a *unix.IPv6MTUInfo
		if a, err = unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, originalDst); err == nil {
			port := a.Addr.Port // in the order of the network
			to = netip.AddrPortFrom(netip.AddrFrom16(a.Addr.Addr), port<<8|port>>8).String()
		}
	})
	return to, errors.Join(err, controlled)
}
