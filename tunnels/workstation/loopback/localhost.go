package loopback

import (
	"errors"
	"net"
	"sync"
	"syscall"
)

// both listens on the addresses of localhost of both families: a client may use either, and
// another program that listens on one of them would answer instead of the cluster.
func both(port string) (net.Listener, error) {
	for tries := 0; ; tries++ {
		four, err := one(net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			return nil, err
		}
		_, chosen, _ := net.SplitHostPort(four.Addr().String()) // an address of a listener
		six, err := net.Listen("tcp6", net.JoinHostPort("::1", chosen))
		switch {
		case err == nil:
			return join(four, six), nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return four, nil // the machine has no IPv6
		}
		_ = four.Close()
		if port != "0" || tries == 10 {
			return one(net.JoinHostPort("::1", chosen)) // the error names the address
		}
	}
}

// pair accepts the connections of two listeners. Its address is that of the first.
type pair struct {
	net.Listener
	second   net.Listener
	accepted chan net.Conn
	ended    chan struct{}
	close    func() error
}

func join(first, second net.Listener) net.Listener {
	p := &pair{Listener: first, second: second, accepted: make(chan net.Conn), ended: make(chan struct{})}
	p.close = sync.OnceValue(func() error {
		close(p.ended)
		return errors.Join(first.Close(), second.Close())
	})
	go p.pass(first)
	go p.pass(second)
	return p
}

// pass forwards the connections of one of them until both are closed.
func (p *pair) pass(l net.Listener) {
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			wait()
			continue
		}
		select {
		case p.accepted <- c:
		case <-p.ended:
			_ = c.Close()
			return
		}
	}
}

// Accept implements net.Listener.
func (p *pair) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pair) Close() error { return p.close() }
