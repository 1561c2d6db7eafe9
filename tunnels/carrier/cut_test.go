package carrier_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/tunnels/carrier"
)

// readsCut fails the test unless a stream's end is ErrCut.
func readsCut(t *testing.T, name string, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, carrier.ErrCut) {
		t.Errorf("%s reads %v, not ErrCut", name, err)
	}
}

func TestACutIsAnErrorAtBothEnds(t *testing.T) {
	for name, do := range map[string]func(conn net.Conn, a, b net.Conn, workstation, proxy *carrier.Session){
		"by the opener":            func(_ net.Conn, a, _ net.Conn, _, _ *carrier.Session) { a.(*carrier.Stream).Cut() },
		"by the other":             func(_ net.Conn, _, b net.Conn, _, _ *carrier.Session) { b.(*carrier.Stream).Cut() },
		"with the connection":      func(conn net.Conn, _, _ net.Conn, _, _ *carrier.Session) { conn.Close() },
		"by the workstation's end": func(_ net.Conn, _, _ net.Conn, w, _ *carrier.Session) { w.Close(nil) },
		"by the proxy's end":       func(_ net.Conn, _, _ net.Conn, _, p *carrier.Session) { p.Close(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var below net.Conn
			workstation, proxy := pair(t, alive, func(c net.Conn) net.Conn { below = c; return c })
			a, b := join(t, workstation, proxy, address("x"))
			// A stream that ended before the cut has ended well.
			c, d := join(t, proxy, workstation, inbound("y"))
			if _, err := io.WriteString(c, "all of it"); err != nil {
				t.Fatal(err)
			}
			if err := c.(*carrier.Stream).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(d); err != nil || string(got) != "all of it" {
				t.Fatalf("read %q, %v", got, err)
			}
			do(below, a, b, workstation, proxy)
			readsCut(t, "the opener", a)
			readsCut(t, "the other", b)
			if _, err := a.Write([]byte("more")); !errors.Is(err, carrier.ErrCut) {
				t.Errorf("the opener writes with %v, not ErrCut", err)
			}
			if workstation.Err() != nil {
				readsCut(t, "the half that went on", c)
				if n, err := d.Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Errorf("what had ended now reads %v", err)
				}
			}
		})
	}
}

func TestAfterCloseTheOtherSideCannotWrite(t *testing.T) {
	workstation, proxy := pair(t, alive, nil)
	a, b := join(t, workstation, proxy, address("x"))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(b); err != nil || len(got) != 0 {
		t.Fatalf("the other side reads %q, %v", got, err)
	}
	_ = b.SetWriteDeadline(time.Now().Add(patience))
	for {
		_, err := b.Write(make([]byte, 32<<10))
		if errors.Is(err, carrier.ErrCut) {
			break
		}
		if err != nil {
			t.Fatalf("it writes with %v", err)
		}
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the closed one reads %v", err)
	}
}

// swallows is a connection that can drop all writes, or all reads, without an error.
type swallows struct {
	net.Conn
	out, in atomic.Bool
}

func (s *swallows) Write(b []byte) (int, error) {
	if s.out.Load() {
		return len(b), nil
	}
	return s.Conn.Write(b)
}

func (s *swallows) Read(b []byte) (int, error) {
	for {
		n, err := s.Conn.Read(b)
		if err != nil || !s.in.Load() {
			return n, err
		}
	}
}

// pinged returns a session that continues for longer than Dead: pings keep it. On a machine that delays them for Dead it tries
// a longer one.
func pinged(t *testing.T) (workstation, proxy *carrier.Session, line *swallows) {
	t.Helper()
	timing := alive
	for timing.Dead = time.Second; ; timing.Dead *= 2 {
		workstation, proxy = pair(t, timing, func(c net.Conn) net.Conn { line = &swallows{Conn: c}; return line })
		select {
		case <-workstation.Done():
		case <-proxy.Done():
		case <-time.After(2 * timing.Dead):
			return workstation, proxy, line
		}
		if timing.Dead > patience/2 {
			t.Fatalf("although it is pinged each %s, a session ends within %s: %v, %v", timing.Silence, timing.Dead, workstation.Err(), proxy.Err())
		}
	}
}

func TestASilentPeerEndsTheSession(t *testing.T) {
	for name, lose := range map[string]func(*swallows){
		"both ways":               func(s *swallows) { s.out.Store(true); s.in.Store(true) },
		"only to the proxy":       func(s *swallows) { s.out.Store(true) },
		"only to the workstation": func(s *swallows) { s.in.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			workstation, proxy, line := pinged(t)
			idle, other := join(t, workstation, proxy, address("x"))
			lose(line)
			for end, s := range map[string]*carrier.Session{"workstation": workstation, "proxy": proxy} {
				select {
				case <-s.Done():
					if !errors.Is(s.Err(), carrier.ErrCut) {
						t.Errorf("%s: %v", end, s.Err())
					}
				case <-time.After(patience):
					t.Fatalf("the %s does not notice", end)
				}
			}
			if !errors.Is(workstation.Err(), carrier.ErrSilent) && !errors.Is(proxy.Err(), carrier.ErrSilent) {
				t.Errorf("neither end reports silence: %v, %v", workstation.Err(), proxy.Err())
			}
			readsCut(t, "an idle stream", idle)
			readsCut(t, "its other side", other)
		})
	}
}

func TestDeadlines(t *testing.T) {
	workstation, proxy := pair(t, alive, nil)
	a, b := join(t, workstation, proxy, address("x"))
	_ = a.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("with nothing to read: %v", err)
	}
	if _, err := io.WriteString(b, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("with something to read, too late: %v", err)
	}
	_ = a.SetReadDeadline(time.Time{})
	if n, err := a.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Fatalf("without a deadline: %d, %v", n, err)
	}
	// Without a reader the window is used up, and the deadline ends the wait.
	_ = a.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	var wrote, read int64
	for {
		n, err := a.Write(make([]byte, 64<<10))
		wrote += int64(n)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil || wrote > 64<<20 {
			t.Fatalf("after %d bytes: %v", wrote, err)
		}
	}
	// Reading under deadlines that pass all the time must lose no credit.
	_ = a.SetWriteDeadline(time.Time{})
	const more = 8 << 20
	go func() {
		_, _ = a.Write(make([]byte, more))
		_ = a.Close()
	}()
	for began := time.Now(); ; {
		_ = b.SetReadDeadline(time.Now().Add(10 * time.Microsecond))
		n, err := b.Read(make([]byte, 32<<10))
		read += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) > patience {
			t.Fatalf("after %d bytes: %v", read, err)
		}
	}
	if read != wrote+more {
		t.Errorf("%d bytes were written, %d read", wrote+more, read)
	}
}
