package carrier_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/tunnels/carrier"
)

// relayed is how a relay ended.
type relayed struct {
	fromA, fromB int64
	err          error
}

// chain returns an application's connection that is forwarded through a session to a service,
// both over TCP, and the results of the relays at both ends.
func chain(t *testing.T, workstation, proxy *carrier.Session, service func(*net.TCPConn)) (app *net.TCPConn, near, far <-chan relayed) {
	t.Helper()
	nearEnd, farEnd := make(chan relayed, 1), make(chan relayed, 1)
	relay := func(a, b net.Conn, end chan<- relayed) {
		fromA, fromB, err := carrier.Relay(a, b)
		end <- relayed{fromA, fromB, err}
	}
	go func() {
		in, err := proxy.Accept(t.Context())
		if err != nil {
			return
		}
		stream, err := in.Accept()
		if err != nil {
			return
		}
		out, served := wires(t)
		go service(served.(*net.TCPConn))
		relay(stream, out, farEnd)
	}()
	appEnd, local := wires(t)
	stream, err := workstation.Open(t.Context(), address("service"))
	if err != nil {
		t.Fatal(err)
	}
	go relay(local, stream, nearEnd)
	_ = appEnd.SetDeadline(time.Now().Add(patience))
	return appEnd.(*net.TCPConn), nearEnd, farEnd
}

func TestRelayCarriesBothWaysToTheirEnds(t *testing.T) {
	workstation, proxy := pair(t, alive, nil)
	request, answer := make([]byte, 5<<20+1), make([]byte, 7<<20+3)
	_, _ = rand.Read(request)
	_, _ = rand.Read(answer)
	asked := make(chan []byte, 1)
	app, near, far := chain(t, workstation, proxy, func(c *net.TCPConn) {
		got, _ := io.ReadAll(c) // to the end of this direction, before the other begins
		asked <- got
		_, _ = c.Write(answer)
		_ = c.Close()
	})
	if _, err := app.Write(request); err != nil {
		t.Fatal(err)
	}
	_ = app.CloseWrite()
	if got := <-asked; !bytes.Equal(got, request) {
		t.Fatalf("the service has read %d of %d bytes", len(got), len(request))
	}
	if got, err := io.ReadAll(app); err != nil || !bytes.Equal(got, answer) {
		t.Fatalf("the application has read %d of %d bytes, %v", len(got), len(answer), err)
	}
	want := relayed{int64(len(request)), int64(len(answer)), nil}
	if got := <-near; got != want {
		t.Errorf("the near relay carried %v, want %v", got, want)
	}
	if got := <-far; got != want {
		t.Errorf("the far relay carried %v, want %v", got, want)
	}
}

func TestRelayNeverMakesAnEndOfAnError(t *testing.T) {
	began := make(chan *net.TCPConn, 1)
	for name, fail := range map[string]func(app, service *net.TCPConn, workstation, proxy *carrier.Session){
		"the service resets":     func(_, s *net.TCPConn, _, _ *carrier.Session) { _ = s.SetLinger(0); s.Close() },
		"the proxy leaves":       func(_, _ *net.TCPConn, _, p *carrier.Session) { p.Close(nil) },
		"the workstation leaves": func(_, _ *net.TCPConn, w, _ *carrier.Session) { w.Close(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			workstation, proxy := pair(t, alive, nil)
			app, near, far := chain(t, workstation, proxy, func(c *net.TCPConn) {
				_, _ = io.ReadFull(c, make([]byte, 5))
				_, _ = io.WriteString(c, "HTTP/1.0 200\r\n\r\nhalf of ")
				began <- c
			})
			if _, err := io.WriteString(app, "asked"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(app, make([]byte, 24)); err != nil {
				t.Fatal(err)
			}
			service := <-began
			fail(app, service, workstation, proxy)
			if _, err := app.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the application reads %v, not a reset", err)
			}
			if name != "the service resets" {
				_ = service.SetReadDeadline(time.Now().Add(patience))
				if _, err := service.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("the service reads %v, not a reset", err)
				}
			}
			for end, got := range map[string]relayed{"near": <-near, "far": <-far} {
				if got.err == nil || got.fromA != 5 || got.fromB != 24 {
					t.Errorf("the %s relay carried %v", end, got)
				}
			}
		})
	}
}

// TestRelayDoesNotWaitForAPeerThatNeverReads has a relay write to a service that takes nothing, and the
// other end of the tunnel give the connection up.
func TestRelayDoesNotWaitForAPeerThatNeverReads(t *testing.T) {
	workstation, proxy := pair(t, alive, nil)
	stream, other := join(t, workstation, proxy, address("service"))
	out, _ := wires(t)
	far := make(chan error, 1)
	go func() {
		_, _, err := carrier.Relay(other, out)
		far <- err
	}()
	_ = stream.SetWriteDeadline(time.Now().Add(time.Second))
	for {
		if _, err := stream.Write(make([]byte, 1<<20)); err != nil {
			break // nothing takes any more
		}
	}
	stream.(*carrier.Stream).Cut()
	select {
	case err := <-far:
		if !errors.Is(err, carrier.ErrCut) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it waits")
	}
	if proxy.Err() != nil {
		t.Error(proxy.Err())
	}
}
