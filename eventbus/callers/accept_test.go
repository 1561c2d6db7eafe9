package callers_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"

	"switchyard.dev/eventbus/callers"
)

// exhausted is a listener that fails to accept the first connection.
type exhausted struct {
	net.Listener
	once sync.Once
}

// Accept implements net.Listener.
func (e *exhausted) Accept() (c net.Conn, err error) {
	e.once.Do(func() { err = errors.New("too many open files") })
	if err != nil {
		return nil, err
	}
	return e.Listener.Accept()
}

// TestAcceptContinuesAfterAnError also ends it, which ends the listener.
func TestAcceptContinuesAfterAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	served, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		callers.Accept(ctx, &exhausted{Listener: l}, slog.New(slog.DiscardHandler), &running, func(c net.Conn) {
			_ = c.Close()
			close(served)
		})
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	<-served
	cancel()
	<-ended
	running.Wait()
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the listener is open")
	}
}
