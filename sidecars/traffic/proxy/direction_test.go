package proxy

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/sidecars/traffic/parse"
)

// unobserved is an observer of no exchange.
type unobserved struct{}

func (u unobserved) Seen() parse.Seen              { return u }
func (unobserved) Begin(parse.Head) parse.Exchange { return nil }
func (unobserved) Unreadable(string)               {}

// pair returns the two ends of a connection.
func pair(t *testing.T) (dialed, accepted *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{d, a} {
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		t.Cleanup(func() { _ = c.Close() })
	}
	return d.(*net.TCPConn), a.(*net.TCPConn)
}

// The application sends its last bytes and closes, while the client of a protocol that is not HTTP sends more. These bytes
// are there for the other direction, however late it reads them.
func TestLastBytesAreNotCutOff(t *testing.T) {
	for _, protocol := range []string{"\x00binary", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n"} {
		client, from := pair(t)
		to, application := pair(t)
		var first atomic.Pointer[string]
		d := &direction{from: from, to: to, side: parse.Request, conn: parse.New(unobserved{}, &parse.Memory{}), first: &first}
		ended := make(chan struct{})
		go func() {
			d.pass()
			close(ended)
		}()
		if _, err := io.WriteString(client, protocol); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(application, make([]byte, len(protocol))); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(application, "bye"); err != nil {
			t.Fatal(err)
		}
		_ = application.Close()
		go func() {
			for {
				if _, err := io.WriteString(client, "more"); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		<-ended
		last := make([]byte, 3)
		if _, err := io.ReadFull(to, last); err != nil || string(last) != "bye" {
			t.Errorf("%.10q: the last bytes are %q, %v", protocol, last, err)
		}
		if why := *first.Load(); why != "closed by the application" {
			t.Errorf("%.10q: it is %s", protocol, why)
		}
	}
}

// A connection that was accepted just before the end is reset: Close waits for it.
func TestAConnectionDuringCloseIsReset(t *testing.T) {
	app, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	p := &Proxy{Observer: func(int32) parse.Observer { return unobserved{} }, Logger: slog.New(slog.DiscardHandler)}
	if err := p.Listen(); err != nil {
		t.Fatal(err)
	}
	p.Close()
	client, accepted := pair(t)
	ended := make(chan struct{})
	go func() {
		p.connect(accepted, Port{To: app.Addr().String()})
		close(ended)
	}()
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("it is open: %v", err)
	}
	<-ended
}

// An application that closes a connection over which its caller has requested nothing has left no request without an answer.
func TestAConnectionWithoutARequestNeedsNoAnswer(t *testing.T) {
	app, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	go func() {
		for {
			c, err := app.Accept()
			if err != nil {
				return
			}
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	p := &Proxy{Observer: func(int32) parse.Observer { return unobserved{} }, Logger: slog.New(slog.DiscardHandler)}
	if err := p.Listen(); err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for text, want := range map[string]bool{"": false, "GET / HTTP/1.1\r\nHost: a\r\n\r\n": true} {
		of := Port{Listening: int32(len(text)), To: app.Addr().String(), Returns: true}
		for range enoughConnections {
			client, accepted := pair(t)
			_, _ = io.WriteString(client, text)
			go func() {
				_, _ = io.Copy(io.Discard, client)
				_ = client.Close()
			}()
			p.connect(accepted, of)
		}
		if got := p.Unanswered()[uint32(of.Listening)] != ""; got != want {
			t.Errorf("%q is reported: %v", text, got)
		}
	}
}
