package dialer_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/dialer"
)

// full returns the descriptor of a listener that accepts no further connection: its kernel drops
// each SYN, as a network that is down does.
func full(t *testing.T) (fd, port int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	at := &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err := syscall.Bind(fd, at); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port = name.(*syscall.SockaddrInet4).Port
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)) // the one that fits
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return fd, port
}

// unanswered returns how many connections to a local port have sent a SYN that is not answered.
func unanswered(t *testing.T, port int) (n int) {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) > 3 && fields[2] == fmt.Sprintf("0100007F:%04X", port) && fields[3] == "02" {
			n++
		}
	}
	return n
}

// TestFurtherConnectionsBeginWhileNoneIsAnswered has a network that answers no SYN until three were
// sent by three connections.
func TestFurtherConnectionsBeginWhileNoneIsAnswered(t *testing.T) {
	fd, port := full(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dialled := make(chan error, 1)
	go func() {
		c, err := dialer.Dial(ctx, fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close()
		}
		dialled <- err
	}()
	wait.Eventually(t, time.Minute, "three connections", func() error {
		if n := unanswered(t, port); n < 3 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	accepted, _, err := syscall.Accept(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(accepted)
	if err := <-dialled; err != nil {
		t.Fatal(err)
	}
	wait.Eventually(t, time.Minute, "the others are given up", func() error {
		if n := unanswered(t, port); n > 0 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}
