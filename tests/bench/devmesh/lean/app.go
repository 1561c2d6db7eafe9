package lean

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

func answer(body []byte) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nServer: app\r\n"+
		"Date: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// app answers requests in one thread.
type app struct {
	epoll int
	// listeners and connections contain the response of each.
	listeners, connections map[int32][]byte
	buffer                 []byte
}

// Serve serves for ever on listening descriptors, each with a body for all requests.
func Serve(bodies map[int][]byte) error {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	a := &app{epoll: epoll, listeners: map[int32][]byte{}, connections: map[int32][]byte{}, buffer: make([]byte, 64<<10)}
	for fd, body := range bodies {
		a.listeners[int32(fd)] = answer(body)
		if err := errors.Join(unix.SetNonblock(fd, true), watch(epoll, fd, fd)); err != nil {
			return err
		}
	}
	for all := make([]unix.EpollEvent, 64); ; {
		events, err := await(epoll, all, -1)
		if err != nil {
			return err
		}
		for _, e := range events {
			if answer, ok := a.listeners[e.Fd]; ok {
				a.accept(e.Fd, answer)
			} else {
				a.reply(e.Fd)
			}
		}
	}
}

// accept takes a connection. One that cannot be taken is its client's trouble.
func (a *app) accept(listener int32, answer []byte) {
	fd, _, err := unix.Accept4(int(listener), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return
	}
	if err := errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1), watch(a.epoll, fd, fd)); err != nil {
		_ = unix.Close(fd)
		return
	}
	a.connections[int32(fd)] = answer
}

// reply answers each request that has arrived. Requests have no body and are sent in one piece; a
// client that does otherwise times out, and reports it.
func (a *app) reply(fd int32) {
	n, err := unix.Read(int(fd), a.buffer)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return
	}
	for range bytes.Count(a.buffer[:max(n, 0)], []byte("\r\n\r\n")) {
		if _, err = unix.Write(int(fd), a.connections[fd]); err != nil {
			break
		}
	}
	if err != nil || n <= 0 {
		delete(a.connections, fd)
		_ = unix.Close(int(fd))
	}
}
