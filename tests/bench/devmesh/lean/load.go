// Package lean is callers and an application of HTTP/1.1 that compute as little as can be, each
// in one thread, so that the program between them is measured.
package lean

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Load is a number of connections to one place, over which requests go one after
// the other, until the program ends. It is used by one thread, and allocates
// nothing while it measures.
type Load struct {
	epoll, timer int
	conns        []*connection
	// want is the body that every answer must have.
	want   []byte
	events []unix.EpollEvent
}

// connection is one of them.
type connection struct {
	fd      int
	request []byte
	answer  []byte
	got     int
	// due is when its request should have been sent.
	due time.Time
}

// noAnswer is how long nothing may happen while an answer is due.
const noAnswer = 60 * time.Second

// Dial opens a connection for each request, and sends it: a connection without data at first is
// not taken for HTTP.
func Dial(to netip.AddrPort, requests [][]byte, want []byte) (*Load, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	l := &Load{epoll: epoll, want: want, events: make([]unix.EpollEvent, len(requests)+1)}
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return nil, err
	}
	if err := watch(l.epoll, l.timer, -1); err != nil {
		return nil, err
	}
	for i, request := range requests {
		c := &connection{request: request, answer: make([]byte, 64<<10)}
		if c.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return nil, err
		}
		if err := unix.Connect(c.fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
			return nil, fmt.Errorf("connect to %s: %w", to, err)
		}
		if err := errors.Join(
			unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
			unix.SetNonblock(c.fd, true), watch(l.epoll, c.fd, i), c.send(),
		); err != nil {
			return nil, err
		}
		l.conns = append(l.conns, c)
	}
	_, err = l.answers(time.Now())
	return l, err
}

// watch has epoll report, by a number, when a descriptor can be read.
func watch(epoll, fd, number int) error {
	return unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(number)})
}

// await waits until something can be read, or for so many milliseconds.
func await(epoll int, events []unix.EpollEvent, milliseconds int) ([]unix.EpollEvent, error) {
	for {
		n, err := unix.EpollWait(epoll, events, milliseconds)
		if !errors.Is(err, unix.EINTR) {
			return events[:max(n, 0)], err
		}
	}
}

// wait waits until something can be read.
func (l *Load) wait() ([]unix.EpollEvent, error) {
	events, err := await(l.epoll, l.events, int(noAnswer.Milliseconds()))
	if err == nil && len(events) == 0 {
		err = fmt.Errorf("no answer within %s", noAnswer)
	}
	return events, err
}

// Flood sends the next request over each connection as soon as the last one is
// answered, and returns how many were answered and how long that took.
func (l *Load) Flood(during time.Duration) (answered int, took time.Duration, err error) {
	began := time.Now()
	for _, c := range l.conns {
		if err := c.send(); err != nil {
			return 0, 0, err
		}
	}
	answered, err = l.answers(began.Add(during))
	return answered, time.Since(began), err
}

// answers takes the answer over each connection, and sends the next request until
// the time has come. It returns the number of answers.
func (l *Load) answers(until time.Time) (answered int, err error) {
	for open := len(l.conns); open > 0; {
		events, err := l.wait()
		if err != nil {
			return 0, err
		}
		more := time.Now().Before(until)
		for _, e := range events {
			if e.Fd < 0 {
				continue
			}
			c := l.conns[e.Fd]
			done, err := c.receive(l.want)
			switch {
			case err != nil:
				return 0, err
			case !done:
				continue
			case !more:
				open--
			default:
				if err := c.send(); err != nil {
					return 0, err
				}
			}
			answered++
		}
	}
	return answered, nil
}

// Pace sends a request in each interval, whether or not those before it are
// answered, and appends how long each took, counted from when it was due: one
// that had to wait for a connection, or for this thread, has waited.
func (l *Load) Pace(interval, during time.Duration, took []time.Duration) ([]time.Duration, error) {
	every := unix.NsecToTimespec(interval.Nanoseconds())
	began := time.Now()
	if err := unix.TimerfdSettime(l.timer, 0, &unix.ItimerSpec{Interval: every, Value: every}, nil); err != nil {
		return nil, err
	}
	idle := append(make([]*connection, 0, len(l.conns)), l.conns...)
	due, left := began.Add(interval), int(during/interval)
	var ticks [8]byte
	for left > 0 || len(idle) < len(l.conns) {
		events, err := l.wait()
		if err != nil {
			return nil, err
		}
		now := time.Now()
		if now.Sub(began) > during+noAnswer {
			return nil, fmt.Errorf("no answer within %s", noAnswer)
		}
		for _, e := range events {
			if e.Fd < 0 {
				_, _ = unix.Read(l.timer, ticks[:])
				continue
			}
			c := l.conns[e.Fd]
			done, err := c.receive(l.want)
			if err != nil {
				return nil, err
			}
			if done {
				took, idle = append(took, now.Sub(c.due)), append(idle, c)
			}
		}
		for ; left > 0 && len(idle) > 0 && !due.After(time.Now()); left-- {
			c := idle[0]
			idle = idle[:copy(idle, idle[1:])]
			c.due, due = due, due.Add(interval)
			if err := c.send(); err != nil {
				return nil, err
			}
		}
	}
	return took, unix.TimerfdSettime(l.timer, 0, &unix.ItimerSpec{}, nil)
}

func (c *connection) send() error {
	n, err := unix.Write(c.fd, c.request)
	if err == nil && n < len(c.request) {
		err = errors.New("a request did not fit")
	}
	return err
}

// receive reads what there is, and reports whether the answer is whole.
func (c *connection) receive(want []byte) (bool, error) {
	n, err := unix.Read(c.fd, c.answer[c.got:])
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if n == 0 {
		return false, fmt.Errorf("the connection was closed after %q", c.answer[:c.got])
	}
	c.got += n
	_, body, ok := bytes.Cut(c.answer[:c.got], []byte("\r\n\r\n"))
	if !ok {
		return false, nil
	}
	if !bytes.HasPrefix(c.answer, []byte("HTTP/1.1 200 ")) || !bytes.HasPrefix(want, body) {
		return false, fmt.Errorf("%.8q should have answered, and the answer was %q", want, c.answer[:c.got])
	}
	if len(body) < len(want) {
		return false, nil
	}
	c.got = 0
	return true, nil
}
