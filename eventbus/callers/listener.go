package callers

import (
	"container/list"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// WriteWithin is how long one write to a connection can take, if Listen is asked to bound it:
// about 30 s, in which the slowest of honest links takes what TCP buffers.
const WriteWithin = 30 * time.Second

// Listener accepts every connection. When strangers have as many as allowed, it closes one of
// these to make room for a new one: of the caller that has the most, the one that has been
// silent longest. A listener that stopped accepting instead would let the first clients keep
// all others out, with connections that cost them nothing.
//
// An identified connection (Identify) is not closed to make room, and
// does not take strangers' room; of those there may be as many again.
type Listener struct {
	net.Listener
	most        int
	writeWithin time.Duration
	closed      atomic.Uint64
	// name and logger are used for warnings about closed connections.
	name   string
	logger *slog.Logger
	// stages is set by AwaitHandshakes.
	stages bool

	warning sync.Mutex
	warned  time.Time

	mu    sync.Mutex
	conns map[string]*Conn // by remote address
	// identified counts identified connections, perUser those of each user of IdentifyAs.
	identified int
	perUser    map[string]int
	// silent are strangers that have begun no handshake, and begun those that have.
	silent, begun strangers
	seq           int
}

// Listen listens on an address, host:port, and bounds the connections of strangers. With
// writeWithin, a write that takes longer ends the connection; 0 is for servers that have
// deadlines of their own. name is the service in messages. A logger, which can be nil,
// occasionally records that connections are closed to make room.
func Listen(address, name string, most int, writeWithin time.Duration, logger *slog.Logger) (*Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", name, err)
	}
	return &Listener{
		Listener: l, most: max(1, most), writeWithin: writeWithin, name: name, logger: logger,
		conns: map[string]*Conn{}, perUser: map[string]int{},
	}, nil
}

// Listeners opens listeners by their names, at the addresses that are not empty, which await handshakes
// except for "metrics" and "health". It counts under a metric the connections that were closed to make room.
func Listeners(addresses map[string]string, most int, metrics prometheus.Registerer, metric string, logger *slog.Logger) (map[string]*Listener, error) {
	all := map[string]*Listener{}
	for name, address := range addresses {
		if address == "" {
			continue
		}
		l, err := Listen(address, name, most, 0, logger)
		if err == nil {
			all[name], l.stages = l, name != "metrics" && name != "health"
			err = l.CountClosed(metrics, metric, prometheus.Labels{"listener": name})
		}
		if err != nil {
			_ = Close(slices.Collect(maps.Values(all))...) // they were not used
			return nil, err
		}
	}
	return all, nil
}

// Close closes listeners; one that is nil was not opened.
func Close(all ...*Listener) error {
	var errs []error
	for _, l := range all {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

// warnEvery is the least time between two warnings about closed connections.
const warnEvery = time.Minute

// warn logs that connections are closed to make room, at most once in warnEvery.
func (l *Listener) warn(victim *Conn) {
	l.warning.Lock()
	defer l.warning.Unlock()
	if now := time.Now(); l.logger != nil && (l.warned.IsZero() || now.Sub(l.warned) >= warnEvery) {
		l.warned = now
		l.logger.Warn("strangers have as many connections as they may; silent ones, or the oldest in a handshake, of the caller with most are closed to make room",
			"listener", l.name, "most", l.most, "closed", l.Closed(), "last", At(victim.remote).Name)
	}
}

// CountClosed registers, under a name, how many connections were closed to make room; it does
// nothing without a registry.
func (l *Listener) CountClosed(to prometheus.Registerer, name string, labels prometheus.Labels) error {
	if to == nil {
		return nil
	}
	err := to.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: name, Help: "Connections of strangers that were closed to make room for others.", ConstLabels: labels,
	}, func() float64 { return float64(l.Closed()) }))
	if err != nil {
		return fmt.Errorf("register the metrics of %s: %w", l.name, err)
	}
	return nil
}

// Closed counts the connections that were closed to make room.
func (l *Listener) Closed() uint64 { return l.closed.Load() }

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: inner, listener: l, remote: inner.RemoteAddr().String()}
	c.touch()
	if victim := l.admit(c); victim != nil {
		l.closed.Add(1)
		_ = victim.Close() // its user gets an error
		l.warn(victim)
	}
	return c, nil
}

// AwaitHandshakes separates connections that have begun a valid handshake (Begun) from
// those that have not, which are silent whatever else they send. Each kind may
// have half of the connections of strangers at any time; of the kind that has more, the oldest
// of the caller with most is closed. Connections from loopback addresses have no caller: of
// them the oldest is closed, where it is older than that. Call it before Accept.
func (l *Listener) AwaitHandshakes() { l.stages = true }

// Begun records that the client of an accepted connection has begun a valid handshake. It does
// nothing for a connection that is not of a Listener with AwaitHandshakes. The server has set a
// deadline for the rest of the handshake.
func Begun(conn net.Conn) {
	for {
		switch c := conn.(type) {
		case *Conn:
			c.listener.begin(c)
			return
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return
		}
	}
}

func (l *Listener) begin(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stages || c.group == nil || c.group.of != &l.silent {
		return
	}
	l.withdraw(c)
	l.join(&l.begun, c)
}

// Identify takes note that the caller of the connection from a remote address has shown
// who it is.
func (l *Listener) Identify(remote string) { l.IdentifyAs(remote, "") }

// share is which part of the identified connections one user may have.
const share = 8

// IdentifyAs is Identify for users: one may have an eighth of the identified connections, and more of his
// count as those of strangers do.
func (l *Listener) IdentifyAs(remote, user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.conns[remote]
	if c == nil || c.identified || l.identified >= l.most {
		return
	}
	if user != "" && l.perUser[user] >= max(1, l.most/share) {
		return
	}
	l.withdraw(c)
	c.identified, c.user = true, user
	l.identified++
	if user != "" {
		l.perUser[user]++
	}
}

// Hang closes the connection from a remote address, if there is one. It reports whether
// there was.
func (l *Listener) Hang(remote string) bool {
	l.mu.Lock()
	c := l.conns[remote]
	l.mu.Unlock()
	if c == nil {
		return false
	}
	_ = c.Close() // its user gets an error
	return true
}

// admit adds a connection, and returns the one to close instead, if there are too many.
func (l *Listener) admit(c *Conn) (victim *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent.n+l.begun.n >= l.most {
		victim = l.victim()
		l.withdraw(victim)
		delete(l.conns, victim.remote)
	}
	l.conns[c.remote] = c
	l.join(&l.silent, c)
	return victim
}

// join counts a connection among strangers. l.mu is held.
func (l *Listener) join(s *strangers, c *Conn) {
	l.seq++
	s.add(c, l.seq, l.stages && Behind(c.remote, nil).Shared)
}

// looked is among how many connections the one to close is chosen: enough to find a
// silent one, and not so many that the search costs much.
const looked = 64

// victim finds the connection to close. l.mu is held.
func (l *Listener) victim() *Conn {
	switch {
	case !l.stages:
		var silent *Conn
		silent, l.seq = l.silent.stillest(l.seq)
		return silent
	case l.begun.n > l.most/2 || l.silent.n == 0:
		return l.begun.oldest()
	}
	return l.silent.oldest()
}

// withdraw takes a stranger's connection from the count. l.mu is held.
func (l *Listener) withdraw(c *Conn) {
	if c.group != nil {
		c.group.of.remove(c)
	}
}

// forget takes a connection that is closed from the count.
func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.withdraw(c)
	if c.identified {
		c.identified = false
		l.identified--
		if l.perUser[c.user]--; l.perUser[c.user] <= 0 {
			delete(l.perUser, c.user)
		}
	}
	if l.conns[c.remote] == c {
		delete(l.conns, c.remote)
	}
}

// Conn is a connection that a Listener counts.
type Conn struct {
	net.Conn
	listener *Listener
	remote   string
	// used is when something came or went last, in nanoseconds since the process began.
	used    atomic.Int64
	closing sync.Once

	// Guarded by the listener's lock. group is nil when it does not count as a
	// stranger's.
	group      *group
	place      *list.Element
	seq        int
	identified bool
	user       string
}

var began = time.Now()

func (c *Conn) touch() { c.used.Store(int64(time.Since(began))) }

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.touch()
	}
	return n, err
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	if c.listener.writeWithin > 0 {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.listener.writeWithin)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.touch()
	}
	return n, err
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.closing.Do(func() { c.listener.forget(c) })
	return c.Conn.Close()
}
