package unread

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// Conn is the connection below an SSH session.
type Conn struct {
	net.Conn
	budget *Budget
	// user is guarded by budget.mu, and base too: the balance when all channels were empty.
	user string
	base int64
	// received counts bytes of the wire, and read those that reading channels accounts for.
	received, read atomic.Int64
	// writing is the number of writes in progress.
	writing atomic.Int32

	closed   sync.Once
	mu       sync.Mutex
	channels map[*Channel]struct{}
}

// Own names the user of the session.
func (c *Conn) Own(user string) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.user = user
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.budget.arrived(n) // before it counts, since no channel has the bytes yet
	c.received.Add(int64(n))
	return n, err
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Add(1)
	defer c.writing.Add(-1)
	return c.Conn.Write(p)
}

// Close implements net.Conn. It may be called by a check.
func (c *Conn) Close() error {
	c.closed.Do(func() {
		go func() { // a check holds the lock
			c.budget.mu.Lock()
			defer c.budget.mu.Unlock()
			delete(c.budget.conns, c)
		}()
	})
	return c.Conn.Close()
}

// sum returns the unread bytes. budget.mu is held.
//
// A channel that waits in Read is empty, unless the client does not read its connection: then
// Read may wait with bytes that it cannot acknowledge.
func (c *Conn) sum() *sum {
	s := &sum{conn: c}
	balance, blocked, now := c.received.Load()-c.read.Load(), c.writing.Load() > 0, time.Now().UnixNano()
	empty, ended := !blocked, 0
	c.mu.Lock()
	for ch := range c.channels {
		if !ch.empty(now) {
			empty = false
			if ch.ended.Load() {
				ended++
			} else if !ch.reading.Load() {
				s.stalled = append(s.stalled, ch)
			}
		}
	}
	c.mu.Unlock()
	if empty {
		c.base = balance
	}
	s.kept = max(0, balance-c.base)
	s.bytes = s.kept
	// Bytes of channels that are being ended are freed soon.
	s.bytes -= s.bytes * int64(ended) / int64(max(1, ended+len(s.stalled)))
	return s
}

const (
	// A packet of SSH has at least packetBytes beside its data, of which it has at most 32 KiB.
	packetBytes, dataShare = 30, 1 << 10
	// progress is how many bytes a channel has to read to be not stalled.
	progress = 256 << 10
	// waiting is how long a channel waits in Read until it is certainly empty.
	waiting = time.Second
)

// Channel is one channel of a session.
type Channel struct {
	ssh.Channel
	conn  *Conn
	about string
	left  func()
	// reading reports whether Read is called, began when it was, and clean whether the channel was
	// empty then. since is when the channel was last empty or had made progress, both in nanoseconds
	// since 1970.
	reading, clean, ended atomic.Bool
	began, since          atomic.Int64

	// turn lets one goroutine read: the library wakes one waiting reader, not all.
	turn sync.Mutex
	// emptied is what the connection had received when the last Read emptied the channel, -1 when it
	// did not; moved is the number of bytes read since the channel was empty or had made progress.
	emptied, moved int64

	mu    sync.Mutex
	cut   func(error)
	why   error
	close sync.Once
}

// Mark is a moment before a channel was opened.
type Mark int64

// Mark returns the moment before a channel is opened.
func (c *Conn) Mark() Mark { return Mark(c.received.Load()) }

// Channel returns a channel that counts its bytes. about names its destination for people, opened is
// from before it was accepted, and left is called when the client has closed it as well.
func (c *Conn) Channel(ch ssh.Channel, about string, opened Mark, left func()) *Channel {
	out := &Channel{Channel: ch, conn: c, about: about, emptied: int64(opened), left: left}
	out.since.Store(time.Now().UnixNano())
	c.mu.Lock()
	c.channels[out] = struct{}{}
	c.mu.Unlock()
	go out.refuseStderr()
	return out
}

// empty reports whether nothing waits to be read.
func (c *Channel) empty(now int64) bool {
	return c.reading.Load() && (c.clean.Load() || now-c.began.Load() > int64(waiting))
}

// Read implements io.Reader.
func (c *Channel) Read(p []byte) (int, error) {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.clean.Store(c.emptied == c.conn.received.Load())
	c.began.Store(time.Now().UnixNano())
	c.reading.Store(true)
	n, err := c.Channel.Read(p)
	counted := int64(n) + int64(n)/dataShare
	// The library fills p as far as it can.
	if n < len(p) {
		counted += packetBytes * int64(min(n, 1))
		c.emptied = c.conn.received.Load()
	} else {
		c.emptied = -1
	}
	c.conn.read.Add(counted)
	if c.moved += int64(n); c.emptied >= 0 || c.moved >= progress {
		c.moved = 0
		c.since.Store(time.Now().UnixNano())
	}
	c.reading.Store(false)
	return n, err
}

// refuseStderr ends the channel when the client sends data of stderr, which no connection over TCP has
// and which would stay unread.
func (c *Channel) refuseStderr() {
	for buffer := make([]byte, 512); ; {
		n, err := c.Stderr().Read(buffer)
		c.conn.read.Add(int64(n))
		if err != nil {
			return
		}
		if !c.ended.Load() {
			c.end(errors.New("the SSH client sent data of stderr"))
		}
	}
}

// OnEnd implements relay.Ender.
func (c *Channel) OnEnd(cut func(error)) {
	c.mu.Lock()
	c.cut = cut
	why := c.why
	c.mu.Unlock()
	if why != nil {
		cut(why)
	}
}

// end ends the connection that the channel is one end of.
func (c *Channel) end(why error) {
	c.ended.Store(true)
	c.mu.Lock()
	c.why = why
	cut := c.cut
	c.mu.Unlock()
	go func() { // it may wait to be sent
		if cut != nil {
			cut(why)
		}
		_ = c.Close()
	}()
}

// Close implements relay.Stream. It does not wait: what the client has sent is discarded until the
// client has closed the channel too, and until then the channel counts.
func (c *Channel) Close() error {
	c.ended.Store(true)
	c.close.Do(func() {
		go func() {
			_ = c.Channel.Close() // the client may have closed it
			c.discard()
			c.conn.mu.Lock()
			delete(c.conn.channels, c)
			c.conn.mu.Unlock()
			c.left()
		}()
	})
	return nil
}

// discard reads until the client has closed the channel.
func (c *Channel) discard() {
	for buffer := make([]byte, 2<<10); ; {
		if _, err := c.Read(buffer); err != nil {
			return
		}
	}
}
