package carrier_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/carrier"
)

// stillTiming is that of the process that is stopped.
var stillTiming = carrier.Timing{Silence: 200 * time.Millisecond, Dead: time.Minute, Gap: time.Second, Handshake: time.Minute}

const stillAddress = "CARRIER_STILL_ADDRESS"

// pings counts the questions of the multiplexer that arrive, frames of type 2 with SYN.
type pings struct {
	net.Conn
	asked atomic.Int32
}

func (p *pings) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	p.asked.Add(int32(bytes.Count(b[:n], []byte{0, 2, 0, 1, 0, 0, 0, 0})))
	return n, err
}

// TestASuspendedEndPingsFirst stops a process for less and for more than Gap. Its session goes on, and
// after the long one it asks the other end whether that is there.
func TestASuspendedEndPingsFirst(t *testing.T) {
	if at := os.Getenv(stillAddress); at != "" {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := stillTiming.Connect(t.Context(), conn, hello())
		if err != nil {
			t.Fatal(err)
		}
		<-s.Done()
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestASuspendedEndPingsFirst$")
	cmd.Env = append(os.Environ(), stillAddress+"="+l.Addr().String())
	cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	line := &pings{Conn: conn}
	s, _, err := stillTiming.Serve(t.Context(), line, welcome)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(nil)
	time.Sleep(500 * time.Millisecond)
	// A machine that is busy stops processes too: of several attempts one shows the difference.
	stop := func(d time.Duration, want int32) {
		t.Helper()
		wait.Eventually(t, patience, "the number of pings after a stop of "+d.String(), func() error {
			before := line.asked.Load()
			_ = cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(d)
			_ = cmd.Process.Signal(syscall.SIGCONT)
			for range 50 {
				if time.Sleep(20 * time.Millisecond); line.asked.Load() > before {
					break
				}
			}
			if asked := line.asked.Load() - before; asked != want {
				return fmt.Errorf("it is %d, not %d", asked, want)
			}
			return nil
		})
	}
	stop(300*time.Millisecond, 0)
	stop(2500*time.Millisecond, 1)
	if s.Err() != nil {
		t.Errorf("the session is over: %v", s.Err())
	}
}
