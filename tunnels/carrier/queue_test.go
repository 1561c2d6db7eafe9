package carrier_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
)

// held is a connection that takes nothing while it is locked.
type held struct {
	net.Conn
	sync.Mutex
}

func (h *held) Write(b []byte) (int, error) {
	h.Lock()
	defer h.Unlock()
	return h.Conn.Write(b)
}

// TestLittleIsQueued holds the connection of a session, into which a stream writes: what a stream that
// sends later would wait for is a sixteenth of what the multiplexer would queue.
func TestLittleIsQueued(t *testing.T) {
	var line *held
	workstation, proxy := pair(t, alive, func(c net.Conn) net.Conn { line = &held{Conn: c}; return line })
	a, b := join(t, workstation, proxy, address("x"))
	line.Lock()
	var took atomic.Int64
	const all = 3 << 20 // less than the window
	wrote := make(chan error, 1)
	go func() {
		buf := make([]byte, 8<<10)
		for took.Load() < all {
			n, err := a.Write(buf)
			if took.Add(int64(n)); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	for before := int64(-1); before != took.Load(); time.Sleep(300 * time.Millisecond) {
		before = took.Load()
	}
	if n := took.Load(); n > 256<<10 {
		t.Errorf("%d KiB are queued", n>>10)
	}
	line.Unlock()
	buf := make([]byte, 64<<10)
	for n := 0; n < all; {
		m, err := b.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
}

// TestFewStreamsHaveAWideWindow writes to streams without readers, from either end, before many are open
// and after.
func TestFewStreamsHaveAWideWindow(t *testing.T) {
	workstation, proxy := pair(t, alive, nil)
	unread := func(c net.Conn, waits int) (n int) {
		buf := make([]byte, 32<<10)
		for n < 1<<20 && waits > 0 {
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			m, err := c.Write(buf)
			n += m
			if errors.Is(err, os.ErrDeadlineExceeded) {
				waits--
			} else if err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	check := func(wide bool) {
		t.Helper()
		a, b := join(t, workstation, proxy, address("x"))
		for end, c := range map[string]net.Conn{"opener": a, "other": b} {
			if n := unread(c, map[bool]int{true: 60, false: 1}[wide]); n > 256<<10 != wide {
				t.Errorf("the %s can write %d KiB", end, n>>10)
			}
		}
	}
	check(true)
	for range 10 {
		join(t, workstation, proxy, address("x"))
	}
	check(false)
}

// TestACutStreamDoesNotWaitForTheQueue cuts a stream that waits, while the connection of the session takes nothing. A
// stream that waits as well writes once it does.
func TestACutStreamDoesNotWaitForTheQueue(t *testing.T) {
	var line *held
	workstation, proxy := pair(t, alive, func(c net.Conn) net.Conn { line = &held{Conn: c}; return line })
	cut, _ := join(t, workstation, proxy, address("x"))
	other, b := join(t, workstation, proxy, address("y"))
	const all = 1 << 20 // less than the window, more than the system queues
	write := func(c net.Conn) chan error {
		wrote := make(chan error, 1)
		go func() {
			_, err := c.Write(make([]byte, all))
			wrote <- err
		}()
		return wrote
	}
	line.Lock()
	ended, wrote := write(cut), write(other)
	select {
	case err := <-ended:
		t.Errorf("the write has ended: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	go cut.(*carrier.Stream).Cut()
	select {
	case err := <-ended:
		if !errors.Is(err, carrier.ErrCut) {
			t.Errorf("the stream that was cut writes with %v", err)
		}
	case <-time.After(patience):
		t.Error("the stream that was cut waits")
	}
	line.Unlock()
	if _, err := io.ReadFull(b, make([]byte, all)); err != nil {
		t.Error(err)
	}
	if err := <-wrote; err != nil {
		t.Errorf("the other stream writes with %v", err)
	}
}

// TestWindowsAreSmallWhileMuchIsUnread has a quarter of what may be unread in the process in one stream.
func TestWindowsAreSmallWhileMuchIsUnread(t *testing.T) {
	near, far := wires(t)
	settings := carrier.Settings{Timing: alive, Limits: carrier.Limits{UnreadAll: 8 << 20}}
	serving := make(chan *carrier.Session, 1)
	go func() {
		s, err := settings.Serve(t.Context(), far, &tunnelv1.Control{}, func(context.Context) (proto.Message, error) { return &tunnelv1.Control{}, nil })
		if err != nil {
			t.Error(err)
		}
		serving <- s
	}()
	workstation, err := settings.Connect(t.Context(), near, &tunnelv1.Control{}, &tunnelv1.Control{}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer workstation.Close(nil)
	proxy := <-serving
	defer proxy.Close(nil)
	first, reader := join(t, workstation, proxy, address("x"))
	if _, err := first.Write(make([]byte, 3<<20)); err != nil {
		t.Fatal(err)
	}
	second, _ := join(t, workstation, proxy, address("y"))
	_ = second.SetWriteDeadline(time.Now().Add(time.Second))
	if n, err := second.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) || n > 256<<10 {
		t.Errorf("%d KiB are written, %v", n>>10, err)
	}
	if _, err := io.ReadFull(reader, make([]byte, 3<<20)); err != nil {
		t.Error(err)
	}
}
