package callers_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

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

// failing is a listener that returns another error than that of a closed one, also once it is closed.
type failing struct{ net.Listener }

// Accept implements net.Listener.
func (failing) Accept() (net.Conn, error) { return nil, errors.New("it fails") }

// TestAcceptEndsWithItsContext has a listener that does not return net.ErrClosed.
func TestAcceptEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		callers.Accept(ctx, failing{l}, slog.New(slog.DiscardHandler), &sync.WaitGroup{}, func(net.Conn) {})
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("Accept continues")
	}
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
