package main

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// What the two sides answer: of one length, so that they cost the same.
var (
	baselineBody = bytes.Repeat([]byte("baseline"), 16)
	forkBody     = bytes.Repeat([]byte("the fork"), 16)
)

func answer(body []byte) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nServer: app\r\n"+
		"Date: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// app answers requests as cheaply as can be, in one thread, so that what is
// measured is what stands before it.
type app struct {
	epoll int
	// listeners and connections have the answer that each gives.
	listeners, connections map[int32][]byte
	buffer                 []byte
}

// newApp serves on listening descriptors that it was started with: first those
// of baselines, and those of forks after them.
func newApp(first, baselines, forks int) (*app, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	a := &app{epoll: epoll, listeners: map[int32][]byte{}, connections: map[int32][]byte{}, buffer: make([]byte, 64<<10)}
	for fd := first; fd < first+baselines+forks; fd++ {
		body := baselineBody
		if fd >= first+baselines {
			body = forkBody
		}
		a.listeners[int32(fd)] = answer(body)
		if err := errors.Join(unix.SetNonblock(fd, true), watch(epoll, fd)); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// watch reports when a descriptor can be read.
func watch(epoll, fd int) error {
	return unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// serve serves for ever.
func (a *app) serve() error {
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(a.epoll, events, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range events[:n] {
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
	if err := errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1), watch(a.epoll, fd)); err != nil {
		_ = unix.Close(fd)
		return
	}
	a.connections[int32(fd)] = answer
}

// reply answers each request that has arrived. Requests have no body and are
// sent in one piece; a client that does otherwise waits in vain, and says so.
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
