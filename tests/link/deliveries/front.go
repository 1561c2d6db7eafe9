package deliveries

import (
	"context"
	"io"
	"net"
	"sync"
)

// Front forwards connections to the first of several addresses that accepts them. Make one with NewFront.
type Front struct {
	l net.Listener

	mu    sync.Mutex
	to    []string
	conns map[net.Conn]bool
	cut   bool
}

// NewFront returns a Front on a free port of loopback.
func NewFront() (*Front, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &Front{l: l, conns: map[net.Conn]bool{}}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go f.forward(near)
		}
	}()
	return f, nil
}

// Address is where it listens.
func (f *Front) Address() string { return f.l.Addr().String() }

// Set replaces the addresses for new connections.
func (f *Front) Set(to ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.to = to
}

// Cut resets all connections, and refuses new ones until Mend.
func (f *Front) Cut() { f.set(true) }

// Mend ends Cut.
func (f *Front) Mend() { f.set(false) }

func (f *Front) set(cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = cut
	for c := range f.conns {
		if tcp, is := c.(*net.TCPConn); is && cut {
			_ = tcp.SetLinger(0) // it is reset
			_ = tcp.Close()
		}
	}
}

// Close ends it.
func (f *Front) Close() error {
	f.Cut()
	return f.l.Close()
}

// add keeps connections that Cut resets; false: the network is cut.
func (f *Front) add(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.cut {
		f.conns[c] = true
	}
	return !f.cut
}

func (f *Front) forward(near net.Conn) {
	defer near.Close()
	f.mu.Lock()
	to := f.to
	f.mu.Unlock()
	for _, address := range to {
		far, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
		if err != nil {
			continue
		}
		defer far.Close()
		if !f.add(near) || !f.add(far) {
			return
		}
		done := make(chan struct{}, 2)
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1]) // either end may close
				done <- struct{}{}
			}()
		}
		<-done
		f.mu.Lock()
		delete(f.conns, near)
		delete(f.conns, far)
		f.mu.Unlock()
		return
	}
}
