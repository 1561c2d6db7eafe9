package carrier_test

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
)

func TestControlMessages(t *testing.T) {
	workstation, proxy := pair(t, alive, nil)
	declare := &tunnelv1.Control{Is: &tunnelv1.Control_Declare{Declare: &tunnelv1.Declare{Revision: 1, Tunnels: []*tunnelv1.TunnelWanted{{Namespace: "a", Name: "b"}}}}}
	declared := &tunnelv1.Control{Is: &tunnelv1.Control_Declared{Declared: &tunnelv1.Declared{Revision: 1}}}
	for _, m := range []struct {
		from, to *carrier.Session
		message  *tunnelv1.Control
	}{{workstation, proxy, declare}, {proxy, workstation, declared}, {workstation, proxy, declare}} {
		if err := m.from.Send(m.message); err != nil {
			t.Fatal(err)
		}
		got, err := m.to.Receive(t.Context())
		if err != nil || got.String() != m.message.String() {
			t.Fatalf("received %v, %v", got, err)
		}
	}
	// A slow receiver delays nothing, and gets the newest message in the end.
	const many = 2000
	for revision := range uint64(many) {
		wanted := &tunnelv1.TunnelWanted{Namespace: strings.Repeat("n", 500), Name: "x"}
		if err := workstation.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Declare{Declare: &tunnelv1.Declare{Revision: revision + 1, Tunnels: []*tunnelv1.TunnelWanted{wanted}}}}); err != nil {
			t.Fatal(err)
		}
	}
	for revision := uint64(0); revision < many; {
		got, err := proxy.Receive(t.Context())
		if err != nil || got.GetDeclare().GetRevision() <= revision {
			t.Fatalf("after revision %d: %v, %v", revision, got, err)
		}
		revision = got.GetDeclare().Revision
	}
	proxy.Close(&tunnelv1.Leave{Why: &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_DRAINING, Message: "The proxy ends."}, ComeBack: true})
	got, err := workstation.Receive(t.Context())
	if err != nil || !got.GetLeave().GetComeBack() {
		t.Fatalf("received %v, %v", got, err)
	}
	left := (*carrier.LeftError)(nil)
	if _, err := workstation.Receive(t.Context()); !errors.As(err, &left) || err.Error() != "The proxy ends." {
		t.Errorf("after Leave: %v", err)
	}
	if !errors.As(workstation.Err(), &left) || left.Leave.Why.Reason != tunnelv1.Reason_REASON_DRAINING {
		t.Errorf("the workstation's session is over with %v", workstation.Err())
	}
	if !errors.Is(proxy.Err(), carrier.ErrClosed) {
		t.Errorf("the proxy's session is over with %v", proxy.Err())
	}
	if err := proxy.Send(declared); !errors.Is(err, carrier.ErrClosed) {
		t.Errorf("then Send returns %v", err)
	}
}

func TestASessionContinuesForTheLingerOfTheProxy(t *testing.T) {
	workstation, end := pair(t, alive, nil)
	leave := &tunnelv1.Leave{ComeBack: true, Linger: durationpb.New(time.Minute)}
	for range 2 { // the second one changes nothing
		if err := end.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Leave{Leave: leave}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-workstation.Leaving(); !proto.Equal(got, leave) {
		t.Fatalf("the workstation received %v", got)
	}
	c, other := join(t, end, workstation, &tunnelv1.Open{})
	if workstation.Connections() != 1 || end.Connections() != 1 {
		t.Errorf("there are %d and %d connections", workstation.Connections(), end.Connections())
	}
	_, _ = c.Close(), other.Close()
	if workstation.Connections() != 0 || end.Connections() != 0 {
		t.Errorf("in the end there are %d and %d connections", workstation.Connections(), end.Connections())
	}
	if workstation.Err() != nil {
		t.Errorf("the session is over: %v", workstation.Err())
	}
}

func TestAStalledStreamDoesNotStallOthers(t *testing.T) {
	workstation, proxy := pair(t, alive, nil)
	stalled, _ := join(t, workstation, proxy, address("stalled"))
	go func() { _, _ = stalled.Write(make([]byte, 64<<20)) }()
	busy, other := join(t, workstation, proxy, address("busy"))
	const size = 40 << 20
	go func() {
		_, _ = busy.Write(make([]byte, size))
		_ = busy.(*carrier.Stream).CloseWrite()
	}()
	_ = other.SetDeadline(time.Now().Add(patience))
	if n, err := io.Copy(io.Discard, other); err != nil || n != size {
		t.Fatalf("%d of %d bytes, %v", n, size, err)
	}
	if err := proxy.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Declared{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := workstation.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if proxy.Err() != nil {
		t.Fatal(proxy.Err())
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	workstation, proxy := pair(t, alive, nil)
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error, 1)
	go func() {
		_, err := workstation.Open(ctx, address("x"))
		opened <- err
	}()
	in, err := proxy.Accept(t.Context())
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-opened; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		c, err := in.Accept()
		if err != nil {
			break // the other side gave it up
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, carrier.ErrCut) {
			break
		}
		if time.Since(began) > patience {
			t.Fatal("the accepted one is not cut")
		}
	}
	a, b := join(t, workstation, proxy, address("y"))
	a.Close()
	b.Close()
}

// TestNothingIsLeft begins and ends sessions in all the ways that there are.
func TestNothingIsLeft(t *testing.T) {
	one := func(i int) {
		near, far := wires(t)
		served := make(chan *carrier.Session, 1)
		go func() {
			s, _, _ := alive.Serve(t.Context(), far, welcome)
			served <- s
		}()
		workstation, _, err := alive.Connect(t.Context(), near, hello())
		if err != nil {
			t.Fatal(err)
		}
		proxy := <-served
		go func() {
			in, err := proxy.Accept(t.Context())
			if err != nil {
				return
			}
			c, err := in.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}()
		c, err := workstation.Open(t.Context(), address("x"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(make([]byte, 100<<10))
		_, _ = io.ReadFull(c, make([]byte, 100<<10))
		switch i % 4 {
		case 0:
			_ = c.Close()
			workstation.Close(nil)
		case 1:
			proxy.Close(&tunnelv1.Leave{})
		case 2:
			near.Close()
		case 3:
			far.Close()
		}
		<-workstation.Done()
		<-proxy.Done()
	}
	one(0)
	settle := func() (int, int64) {
		time.Sleep(100 * time.Millisecond)
		return runtime.NumGoroutine(), heap()
	}
	goroutines, memory := settle()
	for i := range 1000 {
		one(i)
	}
	for began := time.Now(); ; {
		nowGoroutines, nowMemory := settle()
		if nowGoroutines <= goroutines+2 && nowMemory <= memory+4<<20 {
			break
		}
		if time.Since(began) > patience {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines became %d, %d bytes %d\n%s", goroutines, nowGoroutines, memory, nowMemory, buf[:runtime.Stack(buf, true)])
		}
	}
}

var _ net.Conn = (*carrier.Stream)(nil)
