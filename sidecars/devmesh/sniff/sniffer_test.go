package sniff

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
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
	go func() { served <- (&Sniffer{Logger: slog.New(slog.DiscardHandler)}).Serve(ctx, listener) }()
	select {
	case <-listener.again:
	case err := <-served:
		t.Fatalf("it has ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("it does not take connections again")
	}
	end()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestAConnectionThatWantedToGoToEnvoyItselfIsNotPassedOn(t *testing.T) {
	envoy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer envoy.Close()
	own := envoy.Addr().(*net.TCPAddr).AddrPort()
	path := filepath.Join(t.TempDir(), "late.sock")
	server, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = (&Sniffer{OwnPort: own.Port(), Logger: slog.New(slog.DiscardHandler)}).Serve(t.Context(), server)
	}()
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	to := string([]byte{127, 0, 0, 1, byte(own.Port() >> 8), byte(own.Port())})
	header := proxySignature + "\x21\x11\x00\x0c" + "\x0a\x00\x00\x01" + to[:4] + "\x30\x39" + to[4:]
	if _, err := io.WriteString(client, header+"hello\n"); err != nil {
		t.Fatal(err)
	}
	if err := client.SetReadDeadline(time.Now().Add(setup)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
		t.Errorf("got %v, want the end of the connection", err)
	}
	if err := envoy.(*net.TCPListener).SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if c, err := envoy.Accept(); err == nil {
		_ = c.Close()
		t.Error("it was passed on")
	}
}
