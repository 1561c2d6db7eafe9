package carrier_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
)

// patience is how long a test waits for what must happen, on a machine of any speed.
const patience = time.Minute

// alive is the timing of sessions that do not end because a busy machine has delayed them.
var alive = carrier.Timing{
	Silence: 200 * time.Millisecond, Dead: 5 * patience, Gap: 2 * time.Second,
	Handshake: 5 * patience, Goodbye: 500 * time.Millisecond,
}

func hello() *tunnelv1.Hello {
	return &tunnelv1.Hello{
		Version: carrier.Version, Token: "a token", Session: "a session", Epoch: 3,
		Labels: map[string]string{"user": "jo", "host": "laptop"},
	}
}

func welcome(context.Context, *tunnelv1.Hello) (*tunnelv1.Welcome, *tunnelv1.Refused) {
	return &tunnelv1.Welcome{User: "jo", Proxy: "tunnel-proxy-0", OperatorVersion: "1"}, nil
}

// pair returns both ends of a session, and the connections below. They are closed with the test.
func pair(t *testing.T, timing carrier.Timing, over func(net.Conn) net.Conn) (workstation, proxy *carrier.Session) {
	t.Helper()
	near, far := wires(t)
	type served struct {
		*carrier.Session
		hello *tunnelv1.Hello
		err   error
	}
	serving := make(chan served, 1)
	go func() {
		s, h, err := timing.Serve(t.Context(), far, welcome)
		serving <- served{s, h, err}
	}()
	if over != nil {
		near = over(near)
	}
	workstation, _, err := timing.Connect(t.Context(), near, hello())
	if err != nil {
		t.Fatal(err)
	}
	there := <-serving
	if there.err != nil {
		t.Fatal(there.err)
	}
	t.Cleanup(func() {
		workstation.Close(nil)
		there.Session.Close(nil)
	})
	return workstation, there.Session
}

// wires returns two ends of a TCP connection.
func wires(t testing.TB) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	near, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far = <-accepted
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func address(host string) *tunnelv1.Open {
	return &tunnelv1.Open{To: &tunnelv1.Open_Address{Address: &tunnelv1.Address{Host: host, Port: 80}}}
}

func inbound(name string) *tunnelv1.Open {
	return &tunnelv1.Open{To: &tunnelv1.Open_Inbound{Inbound: &tunnelv1.Inbound{Name: name}}}
}

// join opens a connection at one end and accepts it at the other.
func join(t *testing.T, from, to *carrier.Session, open *tunnelv1.Open) (opener, accepter net.Conn) {
	t.Helper()
	accepted := make(chan net.Conn, 1)
	go func() {
		defer close(accepted)
		in, err := to.Accept(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		if in.Open.String() != open.String() {
			t.Errorf("accepted %v, opened %v", in.Open, open)
		}
		conn, err := in.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		accepted <- conn
	}()
	opener, err := from.Open(t.Context(), open)
	if err != nil {
		t.Fatal(err)
	}
	accepter = <-accepted
	if accepter == nil {
		t.FailNow()
	}
	return opener, accepter
}

func TestBothDirections(t *testing.T) {
	workstation, proxy := pair(t, alive, nil)
	for name, ends := range map[string]struct {
		from, to *carrier.Session
		open     *tunnelv1.Open
	}{
		"outbound": {workstation, proxy, address("postgres.prod")},
		"inbound":  {proxy, workstation, inbound("customer")},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := join(t, ends.from, ends.to, ends.open)
			request, answer := strings.Repeat("question ", 200_000), strings.Repeat("answer ", 300_000)
			go func() {
				_, _ = io.WriteString(a, request)
				_ = a.(*carrier.Stream).CloseWrite()
			}()
			got, err := io.ReadAll(b)
			if err != nil || string(got) != request {
				t.Fatalf("%d of %d bytes came, %v", len(got), len(request), err)
			}
			// One direction has ended, the other goes on.
			go func() {
				_, _ = io.WriteString(b, answer)
				_ = b.Close()
			}()
			got, err = io.ReadAll(a)
			if err != nil || string(got) != answer {
				t.Fatalf("%d of %d bytes came back, %v", len(got), len(answer), err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	workstation, proxy := pair(t, alive, nil)
	go func() {
		in, err := proxy.Accept(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_DESTINATION, Message: "Not there."})
	}()
	_, err := workstation.Open(t.Context(), address("169.254.169.254"))
	refused := (*carrier.RefusedError)(nil)
	if !errors.As(err, &refused) || refused.Refused.Reason != tunnelv1.Reason_REASON_DESTINATION || err.Error() != "Not there." {
		t.Fatalf("got %v", err)
	}
}
