package callers

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"switchyard.dev/eventbus/wake"
)

// Identify is Listener.IdentifyAs for a connection of any listener; of one that is no Listener nothing is known.
func Identify(l net.Listener, conn net.Conn, user string) {
	if known, is := l.(*Listener); is {
		known.IdentifyAs(conn.RemoteAddr().String(), user)
	}
}

// acceptPause is the delay after a connection that could not be accepted.
const acceptPause = 50 * time.Millisecond

// Accept calls serve with each connection of a listener, in a goroutine of running, until the listener is closed:
// by the end of ctx, or by another. It continues after other errors, usually of too many open files, and logs them.
func Accept(ctx context.Context, l net.Listener, logger *slog.Logger, running *sync.WaitGroup, serve func(net.Conn)) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil && (ctx.Err() != nil || errors.Is(err, net.ErrClosed)) {
			return
		}
		if err != nil {
			logger.Warn("a connection cannot be accepted", "listener", l.Addr().String(), "error", err)
			wake.Sleep(ctx, acceptPause)
			continue
		}
		running.Go(func() { serve(conn) })
	}
}
