package carrier

import (
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// maxUngreeted is how many bytes a peer may send before its Hello is answered.
const maxUngreeted = maxHello + 8<<10

var errUngreeted = errors.New("too much was sent before Hello was answered")

// wire is the session's connection. It records when data was last received and sent.
type wire struct {
	net.Conn
	began   time.Time
	heard   atomic.Int64 // nanoseconds since began
	sent    atomic.Int64
	greeted atomic.Bool
	meter   *meter
	came    func() // is called when something was read, before the multiplexer has it
	before  int    // bytes read before greeted; only the multiplexer's reader uses it

	queued atomic.Int64  // bytes that the multiplexer has not passed on yet
	passed chan struct{} // some were, or fewer than maxQueued are left
}

// maxQueued is how much of all streams may be queued here. The queue of the multiplexer has 2 MiB, all of
// which a stream waits for that sends after others.
const maxQueued = 128 << 10

// queue counts bytes that a stream has queued, and waits while there are more than maxQueued, until the
// stream has left or the session is done.
func (w *wire) queue(n int, left, done <-chan struct{}) {
	defer w.wake()
	for w.queued.Add(int64(n)); w.queued.Load() > maxQueued; {
		select {
		case <-w.passed:
		case <-left:
			return
		case <-done:
			return
		}
	}
}

// wake wakes one that waits, which wakes the next.
func (w *wire) wake() {
	select {
	case w.passed <- struct{}{}:
	default:
	}
}

func newWire(conn net.Conn, limits Limits) *wire {
	return &wire{Conn: conn, began: time.Now(), meter: limited(limits), passed: make(chan struct{}, 1)}
}

// now returns the time since the session began, on the monotonic clock.
func (w *wire) now() int64 { return int64(time.Since(w.began)) }

// Read implements net.Conn.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.heard.Store(w.now())
		w.meter.came(b[:n])
		w.came()
	}
	if !w.greeted.Load() {
		if w.before += n; w.before > maxUngreeted {
			return n, errUngreeted
		}
	}
	return n, err
}

// Write implements net.Conn.
func (w *wire) Write(b []byte) (int, error) {
	w.meter.sent(b)
	if len(b) > headerBytes && b[1] == typeData {
		defer w.wake()
		defer w.queued.Add(int64(headerBytes - len(b)))
	}
	n, err := w.Conn.Write(b)
	if n > 0 {
		w.sent.Store(w.now())
	}
	return n, err
}

// Close closes the connection below TLS, if there is one: the closing alert of TLS may block for
// five seconds on a connection that accepts no more data, and the protocol has its own end.
func (w *wire) Close() error {
	if over, ok := w.Conn.(interface{ NetConn() net.Conn }); ok {
		return over.NetConn().Close()
	}
	return w.Conn.Close()
}
