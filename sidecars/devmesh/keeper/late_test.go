package keeper

import (
	"context"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"
)

// full is a listener that can open no more files the first time that it is asked.
type full struct {
	net.Listener
	asked int
	again chan struct{}
}

func (f *full) Accept() (net.Conn, error) {
	if f.asked++; f.asked == 1 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	close(f.again)
	return f.Listener.Accept()
}

// Too many connections would otherwise end the program, and all of them with it.
func TestTooManyConnectionsAreWaitedOut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	listener := &full{Listener: l, again: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- (&late{logger: slog.New(slog.DiscardHandler)}).serve(ctx, listener) }()
	select {
	case <-listener.again:
	case err := <-served:
		t.Fatalf("it has ended: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("it does not take connections again")
	}
	end()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
