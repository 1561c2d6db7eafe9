package callers

import (
	"container/heap"
	"container/list"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// WriteWithin is how long one write to a connection may take, where Listen is told to
// bound it: about 30 s, in which the slowest of honest links takes what TCP buffers.
const WriteWithin = 30 * time.Second

// Listener accepts every connection. When strangers have as many as they may, it closes
// one of theirs to make room for the one that comes: of the caller that has the most,
// the one that has been silent longest. A listener that ceases to accept instead lets
// whoever came first keep all others out, with connections that cost him nothing.
//
// A connection whose caller has shown who it is (Known) is not closed to make room, and
// does not take strangers' room; of those there may be as many again.
type Listener struct {
	net.Listener
	most        int
	writeWithin time.Duration
	closed      atomic.Uint64
	// name and logger are who is warned of what is closed.
	name   string
	logger *slog.Logger

	warning sync.Mutex
	warned  time.Time

	mu     sync.Mutex
	conns  map[string]*Conn // by remote address
	known  int
	groups map[string]*group // by the stranger's name
	order  groups
	strangers,
	seq int
}

// Listen listens on an address, host:port, and bounds the connections of strangers. With
// writeWithin, a write that takes longer ends the connection; 0 is for servers that have
// deadlines of their own. name is what callers find there: the log, if there is one, says now
// and then that connections to it are closed to make room.
func Listen(address, name string, most int, writeWithin time.Duration, logger *slog.Logger) (*Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", name, err)
	}
	return &Listener{
		Listener: l, most: max(1, most), writeWithin: writeWithin, name: name, logger: logger,
		conns: map[string]*Conn{}, groups: map[string]*group{},
	}, nil
}

// warnEvery is how often it is said, at most, that connections are closed to make room.
const warnEvery = time.Minute

// warn says in the log that connections are closed to make room, unless it has done so
// lately.
func (l *Listener) warn(victim *Conn) {
	l.warning.Lock()
	defer l.warning.Unlock()
	if now := time.Now(); l.logger != nil && (l.warned.IsZero() || now.Sub(l.warned) >= warnEvery) {
		l.warned = now
		l.logger.Warn("strangers have as many connections as they may; the silent ones of whoever has most are closed to make room",
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
		_ = victim.Close() // whoever uses it learns of it
		l.warn(victim)
	}
	return c, nil
}

// Known takes note that the caller of the connection from a remote address has shown
// who it is.
func (l *Listener) Known(remote string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.conns[remote]
	if c == nil || c.known || l.known >= l.most {
		return
	}
	l.withdraw(c)
	c.known = true
	l.known++
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
	_ = c.Close() // whoever uses it learns of it
	return true
}

// admit adds a connection, and returns the one to close instead, if there are too many.
func (l *Listener) admit(c *Conn) (victim *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.strangers >= l.most {
		victim = l.victim()
		l.withdraw(victim)
		delete(l.conns, victim.remote)
	}
	name := At(c.remote).Name
	g := l.groups[name]
	if g == nil {
		g = &group{name: name}
		l.groups[name] = g
		heap.Push(&l.order, g)
	}
	l.conns[c.remote] = c
	l.strangers++
	l.append(g, c)
	return victim
}

// append adds a connection to the end of a group.
func (l *Listener) append(g *group, c *Conn) {
	l.seq++
	c.group, c.seq = g, l.seq
	c.place = g.conns.PushBack(c)
	heap.Fix(&l.order, g.index)
}

// looked is among how many connections the one to close is chosen: enough to find a
// silent one, and not so many that the search costs much.
const looked = 64

// victim finds the connection to close: of those of the caller with most, the one that
// has been silent longest. Of callers that have as many each, all are looked at. Each
// search goes on where the last one ended.
func (l *Listener) victim() (silent *Conn) {
	begun := l.seq
	for range looked {
		g := l.order[0]
		c := g.conns.Front().Value.(*Conn)
		if c.seq > begun {
			break // they have all been looked at
		}
		if silent == nil || c.used.Load() < silent.used.Load() {
			silent = c
		}
		g.conns.Remove(c.place)
		l.append(g, c)
	}
	return silent
}

// withdraw takes a stranger's connection from the count. l.mu is held.
func (l *Listener) withdraw(c *Conn) {
	if c.group == nil {
		return
	}
	g := c.group
	g.conns.Remove(c.place)
	c.group = nil
	l.strangers--
	if g.conns.Len() > 0 {
		heap.Fix(&l.order, g.index)
		return
	}
	heap.Remove(&l.order, g.index)
	delete(l.groups, g.name)
}

// forget takes a connection that is closed from the count.
func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.withdraw(c)
	if c.known {
		c.known = false
		l.known--
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
	group *group
	place *list.Element
	seq   int
	known bool
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

// group is the connections of one stranger, the one that has been silent longest first,
// as far as is known.
type group struct {
	name  string
	conns list.List
	index int
}

// groups is a heap: first the stranger with the most connections, and of those with as
// many the one whose first connection has been there longest.
type groups []*group

// Len implements heap.Interface.
func (g groups) Len() int { return len(g) }

// Less implements heap.Interface.
func (g groups) Less(i, j int) bool {
	if a, b := g[i].conns.Len(), g[j].conns.Len(); a != b {
		return a > b
	}
	return g[i].first() < g[j].first()
}

func (g *group) first() int {
	if f := g.conns.Front(); f != nil {
		return f.Value.(*Conn).seq
	}
	return 0
}

// Swap implements heap.Interface.
func (g groups) Swap(i, j int) {
	g[i], g[j] = g[j], g[i]
	g[i].index, g[j].index = i, j
}

// Push implements heap.Interface.
func (g *groups) Push(x any) {
	one := x.(*group)
	one.index = len(*g)
	*g = append(*g, one)
}

// Pop implements heap.Interface.
func (g *groups) Pop() any {
	old := *g
	last := old[len(old)-1]
	*g = old[:len(old)-1]
	return last
}
