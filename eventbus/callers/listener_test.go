package callers_test

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/tests/background"
)

// site is a listener that echoes its connections.
type site struct {
	*callers.Listener
	t *testing.T
}

func serve(t *testing.T, most int, within time.Duration) *site {
	t.Helper()
	return listen(t, most, within, slog.New(slog.DiscardHandler))
}

// listen accepts and echoes.
func listen(t *testing.T, most int, within time.Duration, logger *slog.Logger) *site {
	t.Helper()
	l, err := callers.Listen("127.0.0.1:0", "routes", most, within, logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go background.Accept(l, func(c net.Conn) { _, _ = io.Copy(c, c) })
	return &site{l, t}
}

// from connects from 127.0.0.n, and is answered once.
func (s *site) from(n byte) net.Conn {
	s.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, n)}, Timeout: 5 * time.Second}
	c, err := dialer.Dial("tcp", s.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	if !answers(c) {
		s.t.Fatalf("127.0.0.%d is not let in", n)
	}
	return c
}

// answers reports whether a connection is still open.
func answers(c net.Conn) bool {
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return false
	}
	if _, err := c.Write([]byte("?")); err != nil {
		return false
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err == nil
}

func open(conns []net.Conn) (n int) {
	for _, c := range conns {
		if answers(c) {
			n++
		}
	}
	return n
}

func TestPeerWithMostConnectionsLosesOne(t *testing.T) {
	s := serve(t, 8, 0)
	var many []net.Conn
	honest := s.from(3)
	for range 40 {
		many = append(many, s.from(2))
	}
	if n := open(many); n != 7 {
		t.Errorf("the stranger with 40 connections has %d of 8 open", n)
	}
	if !answers(honest) {
		t.Error("the one connection of another stranger was closed")
	}
	for n := byte(10); n < 16; n++ {
		if !answers(s.from(n)) {
			t.Errorf("127.0.0.%d is not served", n)
		}
	}
	if n := open(many); n != 1 {
		t.Errorf("of the stranger with most connections %d are open, beside 7 others", n)
	}
	if s.Closed() != 39 {
		t.Errorf("%d connections are said to have been closed", s.Closed())
	}
}

func TestEvictedConnectionsAreLoggedPeriodically(t *testing.T) {
	var said strings.Builder
	s := listen(t, 2, 0, slog.New(slog.NewTextHandler(&said, nil)))
	for range 10 {
		s.from(2)
	}
	if s.Closed() != 8 || strings.Count(said.String(), "\n") != 1 || !strings.Contains(said.String(), "listener=routes most=2 closed=1 last=127.0.0.2") {
		t.Errorf("of %d connections it is said:\n%s", s.Closed(), said.String())
	}
}

func TestTheSilentMakeRoomFirst(t *testing.T) {
	s := serve(t, 8, 0)
	var conns []net.Conn
	for range 8 {
		conns = append(conns, s.from(2))
	}
	for range 20 {
		if !answers(conns[0]) || !answers(conns[1]) {
			t.Fatal("a connection in use was closed, and silent ones were not")
		}
		s.from(2)
	}
}

func TestTheKnownStay(t *testing.T) {
	s := serve(t, 4, 0)
	var known []net.Conn
	for range 4 {
		c := s.from(2)
		s.Identify(c.LocalAddr().String())
		s.Identify(c.LocalAddr().String()) // counts once
		known = append(known, c)
	}
	var strangers []net.Conn
	for range 30 {
		strangers = append(strangers, s.from(2))
	}
	if n := open(known); n != 4 {
		t.Errorf("%d of 4 known connections are open", n)
	}
	if n := open(strangers); n != 4 {
		t.Errorf("%d connections of strangers are open, and not 4", n)
	}
	extra := strangers[29]
	s.Identify(extra.LocalAddr().String()) // as many as may be known are
	for range 8 {
		s.from(2)
	}
	if answers(extra) {
		t.Error("more are known than may be")
	}
	_ = known[0].Close()
	deadline := time.Now().Add(5 * time.Second)
	for again := s.from(2); ; time.Sleep(10 * time.Millisecond) {
		s.Identify(again.LocalAddr().String())
		for range 5 {
			s.from(2)
		}
		if answers(again) {
			break
		}
		if again = s.from(2); time.Now().After(deadline) {
			t.Fatal("the place of one that has gone is not given to another")
		}
	}
}

// awaiting echoes on a listener that awaits handshakes: a connection begins one by its first byte
// "!", and is known as the user of its second byte, where it has one.
func awaiting(t *testing.T, most int) *site {
	t.Helper()
	l, err := callers.Listen("127.0.0.1:0", "tunnels", most, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.AwaitHandshakes()
	t.Cleanup(func() { _ = l.Close() })
	go background.Accept(l, func(c net.Conn) {
		for b := make([]byte, 2); ; {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			if b[0] == '!' {
				callers.Begun(c)
			}
			if n == 2 {
				l.IdentifyAs(c.RemoteAddr().String(), string(b[1:]))
			}
			if _, err := c.Write(b[:1]); err != nil {
				return
			}
		}
	})
	return &site{l, t}
}

// echo sends a text and reads its first byte back.
func echo(t *testing.T, c net.Conn, text string) {
	t.Helper()
	answer := make([]byte, 1)
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, err := io.WriteString(c, text)
	if err == nil {
		_, err = io.ReadFull(c, answer)
	}
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

// All callers of a port-forward have one address: the silent connections among them make room,
// the oldest first, and one that has begun a handshake stays however many come.
func TestSilentConnectionsMakeRoomForThoseThatBeginAHandshake(t *testing.T) {
	s := awaiting(t, 8)
	honest := s.from(1)
	echo(t, honest, "!")
	var silent []net.Conn
	for range 40 {
		silent = append(silent, s.from(1)) // sends "?", which is no handshake
	}
	if !answers(honest) {
		t.Error("a connection that has begun a handshake was closed, and silent ones were not")
	}
	for i, c := range silent {
		if is := answers(c); is != (i >= 33) {
			t.Errorf("silent connection %d of 40: open is %t", i, is)
		}
	}
}

// Those that begin handshakes leave half of the connections to others.
func TestHandshakesThatAreBegunTakeHalf(t *testing.T) {
	s := awaiting(t, 8)
	var begun []net.Conn
	for range 40 {
		c := s.from(1)
		echo(t, c, "!")
		begun = append(begun, c)
		if other := s.from(2); !answers(other) {
			t.Fatal("a connection that has just come was closed for one that has begun a handshake")
		}
	}
	if n := open(begun); n < 4 || n > 5 {
		t.Errorf("%d of 40 handshakes are under way, of 8 connections", n)
	}
}

// One user has an eighth of the known connections, and further ones are closed as those of
// strangers are.
func TestOneUserLeavesKnownConnectionsToOthers(t *testing.T) {
	s := awaiting(t, 16)
	var ada []net.Conn
	for range 4 {
		c := s.from(1)
		echo(t, c, "!a")
		ada = append(ada, c)
	}
	bob := s.from(1)
	echo(t, bob, "!b")
	for range 60 {
		c := s.from(1)
		echo(t, c, "!")
	}
	if n := open(ada); n != 2 {
		t.Errorf("of a user's connections %d are known, of at most 2", n)
	}
	if !answers(bob) {
		t.Error("one user's connections keep another's from being known")
	}
}

func TestPeerThatReadsNothingIsClosed(t *testing.T) {
	l, err := callers.Listen("127.0.0.1:0", "routes", 4, 100*time.Millisecond, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for written := 0; err == nil; {
		var n int
		if n, err = c.Write(make([]byte, 1<<20)); n > 0 {
			written += n
		}
		if written > 1<<30 {
			t.Fatal("a client that reads nothing is written to without end")
		}
	}
	if !l.Hang(client.LocalAddr().String()) {
		t.Error("the connection is not known by its address")
	}
	_ = c.Close()
	if l.Hang(client.LocalAddr().String()) {
		t.Error("a connection that is closed is still known")
	}
}

// A configuration that depends on the client still does.
func TestBegunTLSKeepsTheConfigurationOfEachClient(t *testing.T) {
	own := &tls.Config{}
	config := callers.BegunTLS(&tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return own, nil }}, "h2")
	if got, err := config.GetConfigForClient(&tls.ClientHelloInfo{}); got != own || err != nil {
		t.Errorf("the configuration is %v, %v", got, err)
	}
	if got, err := callers.BegunTLS(&tls.Config{}).GetConfigForClient(&tls.ClientHelloInfo{}); got != nil || err != nil {
		t.Errorf("the configuration is %v, %v", got, err)
	}
}
