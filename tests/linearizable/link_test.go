package linearizable

import (
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/jetstream"
)

// link is somebody's way to the bus, which can be cut.
type link struct {
	listener net.Listener
	to       func() string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
}

func newLink(t *testing.T, b *bus) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := b.serving.Address // stays the same from now on
	l := &link{listener: listener, to: func() string { return address }, conns: map[net.Conn]struct{}{}}
	go l.serve()
	t.Cleanup(func() {
		_ = listener.Close()
		l.sever(true)
	})
	return l
}

func (l *link) serve() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return // the test is over
		}
		to, err := net.Dial("tcp", l.to())
		if err != nil {
			_ = from.Close() // the bus is down, and so looks the link
			continue
		}
		if !l.keep(from, to) {
			continue
		}
		go l.carry(from, to)
		go l.carry(to, from)
	}
}

// keep remembers two ends, or closes them when the link is cut.
func (l *link) keep(ends ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range ends {
		if l.cut {
			_ = c.Close() // that is what a cut link does
			continue
		}
		l.conns[c] = struct{}{}
	}
	return !l.cut
}

func (l *link) carry(from, to net.Conn) {
	_, _ = io.Copy(to, from) // ends when either end does
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range []net.Conn{from, to} {
		_ = c.Close() // may be closed by the other direction
		delete(l.conns, c)
	}
}

// sever cuts the link, with all that is on its way, or makes it whole again.
func (l *link) sever(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for c := range l.conns {
		if cut {
			_ = c.Close()
		}
	}
}

// open returns the log at the other end.
func (l *link) open(t *testing.T, role connect.Role) *jetstream.Log {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	token := map[connect.Role]string{connect.Writer: "writer", connect.Follower: "follower"}[role]
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	log, conn, err := connect.Open(connect.Config{
		URL: "nats://" + l.listener.Addr().String(), Role: role, TokenFile: file, Logger: slog.New(slog.DiscardHandler),
	}, jetstream.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return log
}
