package loopback

import (
	"context"
	"net"
	"sync"

	"switchyard.dev/tunnels/relay"
)

// limited bounds the connections of a listener. Its connections support half-close, as TCP does;
// those of netutil.LimitListener do not.
func limited(ctx context.Context, l net.Listener) net.Listener {
	return &bounded{Listener: l, ctx: ctx, room: make(chan struct{}, maxConns)}
}

type bounded struct {
	net.Listener
	ctx  context.Context
	room chan struct{}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.room <- struct{}{}:
	case <-b.ctx.Done():
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.room
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		<-b.room
		return c, nil
	}
	return &counted{TCPConn: tcp, leave: sync.OnceFunc(func() { <-b.room })}, nil
}

type counted struct {
	*net.TCPConn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}

// Cut aborts the connection.
func (c *counted) Cut() {
	defer c.leave()
	relay.Cut(c.TCPConn)
}
