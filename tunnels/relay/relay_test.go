package relay_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tunnels/relay"
)

// pair returns both ends of a connection.
func pair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	o, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{c, o} {
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		t.Cleanup(func() { c.Close() })
	}
	return c.(*net.TCPConn), o.(*net.TCPConn)
}

func TestAnEndOfFileGoesOnAlone(t *testing.T) {
	client, a := pair(t)
	b, server := pair(t)
	ended := make(chan relay.Result, 1)
	go func() { ended <- relay.Pipe(a, b) }()
	_, _ = io.WriteString(client, "question")
	_ = client.CloseWrite()
	if got, err := io.ReadAll(server); err != nil || string(got) != "question" {
		t.Fatalf("the server read %q, %v", got, err)
	}
	_, _ = io.WriteString(server, strings.Repeat("answer", 1000))
	_ = server.Close()
	if got, err := io.ReadAll(client); err != nil || len(got) != 6000 {
		t.Fatalf("the client read %d bytes, %v", len(got), err)
	}
	if e := <-ended; e != (relay.Result{Sent: 8, Received: 6000}) {
		t.Errorf("ended with %+v", e)
	}
}

func TestWhatBreaksOneBreaksTheOther(t *testing.T) {
	client, a := pair(t)
	b, server := pair(t)
	ended := make(chan relay.Result, 1)
	go func() { ended <- relay.Pipe(a, b) }()
	_, _ = io.WriteString(server, "half an ans")
	head := make([]byte, 11)
	if _, err := io.ReadFull(client, head); err != nil {
		t.Fatal(err)
	}
	relay.Cut(server)
	if _, err := client.Read(head); err == nil || err == io.EOF {
		t.Errorf("the client read %v, and took half of the answer for the whole", err)
	}
	if e := <-ended; e.Err == nil {
		t.Error("it ended as if nothing had broken")
	}
}
