package carrier_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"google.golang.org/protobuf/proto"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
)

// serve serves what a stranger sends, and returns how it ended. The session is nil unless it began.
func serve(t *testing.T, timing carrier.Timing, stranger func(net.Conn)) (*carrier.Session, error) {
	t.Helper()
	near, far := wires(t)
	go stranger(near)
	s, _, err := timing.Serve(t.Context(), far, welcome)
	if s != nil {
		t.Cleanup(func() { s.Close(nil) })
	}
	return s, err
}

func framed(m proto.Message) []byte {
	raw, _ := proto.Marshal(m)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)
}

// as returns a stranger that speaks the multiplexer's protocol, and what he does with it.
func as(do func(*yamux.Session, net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		config := yamux.DefaultConfig()
		config.LogOutput = io.Discard
		mux, err := yamux.Client(conn, config, nil)
		if err != nil {
			return
		}
		defer mux.Close()
		control, err := mux.Open(context.Background())
		if err != nil {
			return
		}
		do(mux, control)
		<-mux.CloseChan()
	}
}

func control(m *tunnelv1.Control) []byte { return framed(m) }

func TestASessionDoesNotBeginWith(t *testing.T) {
	says := func(raw []byte) func(net.Conn) {
		return as(func(_ *yamux.Session, c net.Conn) { _, _ = c.Write(raw) })
	}
	wrong := func(change func(*tunnelv1.Hello)) func(net.Conn) {
		h := hello()
		change(h)
		return says(control(&tunnelv1.Control{Is: &tunnelv1.Control_Hello{Hello: h}}))
	}
	const late = "did not end in time"
	noise := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	for name, c := range map[string]struct {
		stranger func(net.Conn)
		want     string
	}{
		"nothing":      {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, late},
		"half a frame": {func(c net.Conn) { _, _ = c.Write([]byte{0, 1, 0}); _, _ = io.Copy(io.Discard, c) }, late},
		"the end":      {func(c net.Conn) { c.Close() }, "EOF"},
		"noise":        {func(c net.Conn) { _, _ = c.Write(noise) }, "invalid protocol version"},
		"an unknown frame": {func(c net.Conn) {
			_, _ = c.Write(make([]byte, 1))
			_, _ = c.Write(append([]byte{9}, make([]byte, 32)...))
		}, "invalid msg type"},
		"no first message":   {as(func(*yamux.Session, net.Conn) {}), late},
		"half a length":      {says([]byte{0, 0}), late},
		"a message too long": {says([]byte{0, 1, 0, 1}), "is 65537 bytes long"},
		"a message of 4 GiB": {says([]byte{255, 255, 255, 255}), "is 4294967295 bytes long"},
		"no protobuf":        {says([]byte{0, 0, 0, 3, 255, 255, 255}), "not a message"},
		"another message":    {says(control(&tunnelv1.Control{Is: &tunnelv1.Control_Ping{}})), "not Hello"},
		"an unknown message": {says([]byte{0, 0, 0, 3, 0xa2, 6, 0}), "not Hello"},
		"another version":    {wrong(func(h *tunnelv1.Hello) { h.Version = 7 }), "speaks version 1"},
		"no session":         {wrong(func(h *tunnelv1.Hello) { h.Session = "" }), "no name"},
		"no epoch":           {wrong(func(h *tunnelv1.Hello) { h.Epoch = 0 }), "no epoch"},
		"a long label":       {wrong(func(h *tunnelv1.Hello) { h.Labels["os"] = strings.Repeat("x", 257) }), "more than 256 bytes"},
		"long labels": {wrong(func(h *tunnelv1.Hello) {
			for i := range 10 {
				h.Labels[strings.Repeat("k", i+1)] = strings.Repeat("x", 256)
			}
		}), "at most 2048 are allowed"},
		"too much before Hello": {as(func(mux *yamux.Session, c net.Conn) {
			for range 16 {
				other, err := mux.Open(context.Background())
				if err != nil {
					return
				}
				go func() { _, _ = other.Write(make([]byte, 128<<10)) }()
			}
		}), "before Hello was answered"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timing := alive
			if c.want == late {
				timing.Handshake = time.Second
			}
			s, err := serve(t, timing, c.stranger)
			if s != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("session %v, error %v; want %q", s != nil, err, c.want)
			}
		})
	}
}

func TestRefusalsHaveAReason(t *testing.T) {
	near, far := wires(t)
	served := make(chan error, 1)
	go func() {
		_, _, err := alive.Serve(t.Context(), far, func(_ context.Context, h *tunnelv1.Hello) (*tunnelv1.Welcome, *tunnelv1.Refused) {
			if !proto.Equal(h, hello()) {
				t.Errorf("greeted %v", h)
			}
			return nil, &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_TAKEN, Message: "Epoch 4 has the session."}
		})
		served <- err
	}()
	s, _, err := alive.Connect(t.Context(), near, hello())
	for end, err := range map[string]error{"workstation": err, "proxy": <-served} {
		refused := (*carrier.RefusedError)(nil)
		if !errors.As(err, &refused) || refused.Refused.Reason != tunnelv1.Reason_REASON_TAKEN {
			t.Errorf("%s: %v", end, err)
		}
	}
	if s != nil {
		t.Error("there is a session")
	}
	if _, err := near.Write([]byte{0}); err == nil {
		t.Error("its connection is open")
	}
}

func TestASessionEndsWith(t *testing.T) {
	greeted := func(do func(*yamux.Session, net.Conn)) func(net.Conn) {
		return as(func(mux *yamux.Session, c net.Conn) {
			_, _ = c.Write(control(&tunnelv1.Control{Is: &tunnelv1.Control_Hello{Hello: hello()}}))
			_, _ = c.Read(make([]byte, 1024))
			do(mux, c)
		})
	}
	says := func(raw []byte) func(net.Conn) {
		return greeted(func(_ *yamux.Session, c net.Conn) { _, _ = c.Write(raw) })
	}
	for name, c := range map[string]struct {
		stranger func(net.Conn)
		want     string
	}{
		"a message too long": {says([]byte{0, 16, 0, 1}), "is 1048577 bytes long"},
		"no protobuf":        {says([]byte{0, 0, 0, 3, 255, 255, 255}), "not a message"},
		"an unknown message": {says([]byte{0, 0, 0, 3, 0xa2, 6, 0}), "is not for this end"},
		"a proxy's message":  {says(control(&tunnelv1.Control{Is: &tunnelv1.Control_Declared{}})), "is not for this end"},
		"a second Hello":     {says(control(&tunnelv1.Control{Is: &tunnelv1.Control_Hello{}})), "is not for this end"},
		"half a message": {greeted(func(_ *yamux.Session, c net.Conn) {
			_, _ = c.Write([]byte{0, 0, 0, 9, 1})
			_ = c.(*yamux.Stream).CloseWrite()
		}), "ends after 1 of 9"},
		"the control stream's end": {greeted(func(_ *yamux.Session, c net.Conn) { _ = c.(*yamux.Stream).CloseWrite() }), "has ended the session"},
		"its reset":                {greeted(func(_ *yamux.Session, c net.Conn) { _ = c.(*yamux.Stream).Reset() }), "was cut"},
		"more than a window": {func(conn net.Conn) {
			// Frames by hand: the control stream, Hello, and more data than the window permits.
			frame := func(kind byte, flags uint16, id, length uint32) []byte {
				f := binary.BigEndian.AppendUint16([]byte{0, kind}, flags)
				return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(f, id), length)
			}
			h := control(&tunnelv1.Control{Is: &tunnelv1.Control_Hello{Hello: hello()}})
			_, _ = conn.Write(append(frame(0, 1, 1, uint32(len(h))), h...))
			_, _ = conn.Read(make([]byte, 1024))
			time.Sleep(50 * time.Millisecond)
			_, _ = conn.Write(frame(1, 1, 3, 0))
			_, _ = conn.Write(frame(0, 0, 3, 1<<30))
			_, _ = io.Copy(io.Discard, conn)
		}, "receive window exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := serve(t, alive, c.stranger)
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-s.Done():
			case <-time.After(patience): // before it is taken for dead
				t.Fatal("it goes on")
			}
			if !strings.Contains(s.Err().Error(), c.want) {
				t.Errorf("it ends with %q; want %q", s.Err(), c.want)
			}
		})
	}
}

// TestUnreadDataIsBounded has a peer open all the streams that it may, and fill each. Nobody
// reads them.
func TestUnreadDataIsBounded(t *testing.T) {
	workstation, proxy := pair(t, alive, nil)
	accepted := make(chan net.Conn, 1024)
	go func() {
		for {
			in, err := proxy.Accept(t.Context())
			if err != nil {
				return
			}
			c, err := in.Accept()
			if err != nil {
				continue
			}
			accepted <- c
		}
	}()
	before := heap()
	const streams, each = 1000, 200 << 10
	filled := make(chan error, streams)
	for range streams {
		c, err := workstation.Open(t.Context(), address("x"))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := c.Write(make([]byte, each))
			filled <- err
		}()
	}
	for range streams {
		<-filled
	}
	// One that is read goes on beside those that are not.
	a, b := net.Conn(nil), net.Conn(nil)
	for len(accepted) > 0 {
		<-accepted
	}
	a, err := workstation.Open(t.Context(), address("y"))
	if err != nil {
		t.Fatal(err)
	}
	b = <-accepted
	go func() { _, _ = a.Write([]byte("still here")); _ = a.Close() }()
	if got, err := io.ReadAll(b); err != nil || string(got) != "still here" {
		t.Fatalf("%q, %v", got, err)
	}
	if grown := heap() - before; grown > 96<<20 {
		t.Errorf("%d MiB of unread data are in memory", grown>>20)
	}
	if workstation.Err() != nil || proxy.Err() != nil {
		t.Errorf("the session is over: %v, %v", workstation.Err(), proxy.Err())
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestTooManyConnectionsAreRefused(t *testing.T) {
	workstation, proxy := pair(t, alive, nil)
	go func() {
		for {
			in, err := proxy.Accept(t.Context())
			if err != nil {
				return
			}
			go func() {
				c, err := in.Accept()
				if err == nil {
					_, _ = io.Copy(io.Discard, c)
					_ = c.Close()
				}
			}()
		}
	}()
	var all []net.Conn
	for range 1024 {
		c, err := workstation.Open(t.Context(), address("x"))
		if err != nil {
			t.Fatalf("after %d: %v", len(all), err)
		}
		all = append(all, c)
	}
	_, err := workstation.Open(t.Context(), address("x"))
	refused := (*carrier.RefusedError)(nil)
	if !errors.As(err, &refused) || refused.Refused.Reason != tunnelv1.Reason_REASON_EXHAUSTED {
		t.Fatalf("one too many: %v", err)
	}
	// It was only one too many: with one less there is room.
	_ = all[0].Close()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err = workstation.Open(t.Context(), address("x")); err == nil {
			return
		}
		if time.Since(began) > patience {
			t.Fatal(err)
		}
	}
}

func TestPendingConnectionsAreBounded(t *testing.T) {
	workstation, proxy := pair(t, alive, nil)
	const all, pending = 300, 256
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	results := make(chan error, all)
	for range all {
		go func() {
			_, err := workstation.Open(ctx, address("x"))
			results <- err
		}()
	}
	for told := range all - pending {
		refused := (*carrier.RefusedError)(nil)
		if err := <-results; !errors.As(err, &refused) || refused.Refused.Reason != tunnelv1.Reason_REASON_EXHAUSTED {
			t.Fatalf("after %d of %d connections are refused, the next has error %v", told, all, err)
		}
	}
	select {
	case err := <-results:
		t.Errorf("one more ends with %v", err)
	case <-time.After(time.Second): // a machine that is slower misses it
	}
	if proxy.Err() != nil {
		t.Error(proxy.Err())
	}
}
