package relay_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/trust/trusttest"
	"switchyard.dev/tunnels/relay"
)

// wires returns both ends of a connection over TCP; that which was accepted is counted by a
// listener.
func wires(t *testing.T) (dialled *net.TCPConn, accepted net.Conn, l *callers.Listener) {
	t.Helper()
	l, err := callers.Listen("127.0.0.1:0", "test", 8, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{conn, accepted} {
		_ = c.SetDeadline(time.Now().Add(time.Minute))
	}
	return conn.(*net.TCPConn), accepted, l
}

// channel is a Stream of which the relay knows nothing else, as a channel of SSH is.
type channel struct {
	net.Conn
	half func() error
}

func (c channel) CloseWrite() error { return c.half() }

// dressed has the relay copy by itself, and not.
var dressed = map[string]func(net.Conn) relay.Stream{
	"TCP": relay.Of,
	"a channel": func(c net.Conn) relay.Stream {
		return channel{c, func() error { return relay.Of(c).CloseWrite() }}
	},
}

func TestBothDirectionsEndByThemselves(t *testing.T) {
	for name, dress := range dressed {
		t.Run(name, func(t *testing.T) {
			left, a, _ := wires(t)
			right, b, _ := wires(t)
			result := make(chan relay.Result, 1)
			go func() { result <- relay.Pipe(dress(a), dress(b)) }()
			sent := make([]byte, 1<<20+17)
			_, _ = rand.Read(sent)
			go func() {
				_, _ = left.Write(sent)
				_ = left.CloseWrite()
			}()
			if got, err := io.ReadAll(right); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("%d bytes of %d arrived: %v", len(got), len(sent), err)
			}
			// The way back is open yet.
			if _, err := io.WriteString(right, "thanks"); err != nil {
				t.Fatal(err)
			}
			_ = right.Close()
			if got, err := io.ReadAll(left); err != nil || string(got) != "thanks" {
				t.Fatalf("%q came back: %v", got, err)
			}
			if r := <-result; r.Sent != int64(len(sent)) || r.Received != 6 || r.Err != nil {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestACutIsNoEndOfFile(t *testing.T) {
	for name, dress := range dressed {
		t.Run(name, func(t *testing.T) {
			left, a, _ := wires(t)
			right, b, _ := wires(t)
			result := make(chan relay.Result, 1)
			go func() { result <- relay.Pipe(dress(a), relay.Of(b)) }()
			if _, err := io.WriteString(left, "half of it"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(right, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			relay.Cut(left)
			isCut(t, right)
			if r := <-result; r.Err == nil || r.Sent != 10 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// isCut reads what ended as an error.
func isCut(t *testing.T, conn net.Conn) {
	t.Helper()
	if got, err := io.ReadAll(conn); err == nil || len(got) > 0 {
		t.Errorf("a connection that was cut ended well, after %q", got)
	} else if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("a connection that was cut is there yet: %v", err)
	}
}

// A channel has no reset: it is closed, also when it has nothing to send.
func TestAChannelIsClosedWhenTheOtherEndIsCut(t *testing.T) {
	left, a, _ := wires(t)
	right, b, _ := wires(t)
	result := make(chan relay.Result, 1)
	go func() { result <- relay.Pipe(dressed["a channel"](a), relay.Of(b)) }()
	relay.Cut(right)
	if _, err := io.ReadAll(left); err != nil {
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("the channel is there yet: %v", err)
		}
	}
	if r := <-result; r.Err == nil || r.Sent != 0 || r.Received != 0 {
		t.Errorf("%+v", r)
	}
}

func TestAListenerForgetsWhatWasRelayed(t *testing.T) {
	left, a, l := wires(t)
	right, b, _ := wires(t)
	remote := left.LocalAddr().String()
	go func() {
		_ = left.Close()
		_ = right.Close()
	}()
	_ = relay.Pipe(relay.Of(a), relay.Of(b))
	if l.Hang(remote) {
		t.Error("the listener counts a connection that is over")
	}
}

// TestACutIsAnErrorWithinTLS cuts and closes the server's end of a TLS connection, which first reads some bytes
// that were read before.
func TestACutIsAnErrorWithinTLS(t *testing.T) {
	pair := trusttest.Server(t, trusttest.New(t, "relay").Leaf(t, "relay"))
	for name, c := range map[string]struct {
		end func(relay.Stream)
		err bool
	}{
		"cut":        {func(s relay.Stream) { relay.Cut(s) }, true},
		"closed":     {func(s relay.Stream) { _ = s.Close() }, false},
		"half close": {func(s relay.Stream) { _ = s.CloseWrite() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			near, far, _ := wires(t)
			client, server := tls.Client(near, &tls.Config{InsecureSkipVerify: true}), tls.Server(far, pair)
			first := []byte("first ")
			s := relay.After(first, server)
			copy(first, "XXXXXX")
			go func() { _, _ = io.WriteString(client, "second") }()
			got := make([]byte, len("first second"))
			if _, err := io.ReadFull(s, got); err != nil || string(got) != "first second" {
				t.Fatalf("read %q, %v", got, err)
			}
			c.end(s)
			if _, err := io.ReadAll(client); (err != nil) != c.err {
				t.Errorf("the client reads %v", err)
			}
		})
	}
}
