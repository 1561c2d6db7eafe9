package parse

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Bounds of messages. Connections beyond them are passed on and not captured.
const (
	maxHead   = 128 << 10 // of a head, of the trailers, of a list of headers
	maxMethod = 32
	maxOpen   = 4096 // exchanges of one connection at once
)

// Memory bounds the parts of heads that wait for the rest, over all connections.
type Memory struct{ used atomic.Int64 }

// maxWaiting is that bound.
const maxWaiting = 2 << 20

// errOther is the result of bytes that are not HTTP.
var errOther = errors.New("not HTTP")

// side reads one direction.
type side interface {
	// read takes the next bytes. It returns those that another reader takes, after switched.
	read(b []byte) (rest []byte, err error)
	// end ends the direction; last: no response can follow.
	end(last bool)
}

// Conn reads one connection. Its methods can be called concurrently for the two directions.
type Conn struct {
	observer Observer
	memory   *Memory
	opaque   atomic.Bool
	offered  [2]offered

	mu    sync.Mutex
	sides [2]side
	// seen is the request in the offered bytes, which has not begun; nil: there is none.
	seen Seen
	// known: it is known to be HTTP.
	known bool
	// queue has the requests of HTTP/1 without a whole response, and late is one with a whole response that has not ended.
	queue []*transaction
	late  *transaction
	// streams are those of HTTP/2.
	streams map[uint32]*transaction
	waiting int64
}

// offered are bytes of one side that are passed on and not read yet.
type offered struct {
	waits atomic.Bool // bytes are valid
	bytes []byte
}

// New returns the reader of a connection that begins.
func New(o Observer, m *Memory) *Conn {
	c := &Conn{observer: o, memory: m}
	c.sides = [2]side{&one{c: c, of: Request}, &one{c: c, of: Response}}
	return c
}

// Opaque reports that the connection is not read: it is not HTTP, or cannot be read any more.
func (c *Conn) Opaque() bool { return c.opaque.Load() }

// HTTP reports whether the connection is one of HTTP.
func (c *Conn) HTTP() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// Offer takes bytes that one side sends, before they are passed on. Settle of the same side follows; until then they must not change.
// When Offer returns, their requests are counted. The rest is read by Settle, or before the next bytes of the other side, which
// can be their result.
func (c *Conn) Offer(s Side, b []byte) {
	if c.Opaque() {
		return
	}
	if s == Request {
		c.mu.Lock()
		defer c.mu.Unlock()
		defer c.recovered()
		c.settle()
		if c.Opaque() || !c.count(b) {
			c.read(s, b)
			return
		}
	}
	c.offered[s].bytes = b
	c.offered[s].waits.Store(true)
}

// Settle reads the offered bytes, if they are not read yet.
func (c *Conn) Settle() {
	if c.Opaque() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.recovered()
	c.settle()
}

func (c *Conn) settle() {
	for s := range c.offered { // requests before their responses
		if o := &c.offered[s]; o.waits.Load() {
			b := o.bytes
			o.bytes = nil // idle connections keep no buffer
			o.waits.Store(false)
			c.read(Side(s), b)
		}
	}
}

// count counts the request in bytes of the client. It returns false if only reading them shows how many there are.
func (c *Conn) count(b []byte) bool {
	o, is := c.sides[Request].(*one)
	if !is || !c.known {
		return false
	}
	begins, sure := o.begins(b)
	if begins && sure {
		c.seen = c.observer.Seen()
	}
	return sure
}

// take returns the request that is read now, which is counted.
func (c *Conn) take() (s Seen) {
	if s, c.seen = c.seen, nil; s == nil {
		s = c.observer.Seen()
	}
	return s
}

func (c *Conn) read(s Side, b []byte) {
	for len(b) > 0 && !c.Opaque() {
		rest, err := c.sides[s].read(b)
		if err != nil {
			c.fail(fmt.Errorf("%s: %w", s, err))
			return
		}
		b = rest
	}
}

// EOF takes the end of one direction. Requests that the application has not answered by its end have no response.
func (c *Conn) EOF(s Side) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.recovered()
	c.settle()
	if !c.Opaque() {
		c.sides[s].end(s == Response)
	}
}

// Close ends the connection: exchanges that are not whole end with this problem.
func (c *Conn) Close(problem string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.recovered()
	c.settle()
	c.closeAll(problem)
}

func (c *Conn) closeAll(problem string) {
	c.unanswered(problem)
	if c.late != nil {
		c.late.close(problem)
	}
	c.queue, c.streams, c.late, c.sides = nil, nil, nil, [2]side{}
	c.opaque.Store(true)
	c.wait(-c.waiting)
}

// unanswered ends the exchanges without a whole response.
func (c *Conn) unanswered(problem string) {
	for _, t := range c.queue {
		t.close(problem)
	}
	for _, t := range c.streams {
		t.close(problem)
	}
}

// recovered turns a panic of this package into a connection that is not read any more.
func (c *Conn) recovered() {
	if r := recover(); r != nil {
		c.queue, c.streams, c.late = nil, nil, nil
		c.fail(fmt.Errorf("panic: %v", r))
	}
}

// fail stops reading.
func (c *Conn) fail(err error) {
	if c.known {
		c.take().Unreadable(err.Error())
	}
	c.closeAll("the connection cannot be read any more")
}

// wait adds to the bytes that wait for the rest of a head.
func (c *Conn) wait(n int64) error {
	c.waiting += n
	if c.memory.used.Add(n) > maxWaiting && n > 0 {
		return errors.New("too many heads are incomplete at once")
	}
	return nil
}

// begin begins an exchange.
func (c *Conn) begin(h Head) (*transaction, error) {
	if len(c.queue)+len(c.streams) >= maxOpen {
		return nil, errors.New("too many requests at once")
	}
	c.known = true
	t := &transaction{method: h.Method, to: c.take().Begin(h)}
	if hasPrefixFold(Value(h.Fields, "content-type"), "application/grpc") && h.Protocol == protocol2 {
		t.messages = &[2]lengths{}
	}
	return t, nil
}

// gather completes blocks that arrive in pieces.
type gather struct {
	c    *Conn
	have []byte
	// line is the beginning of the last line.
	line int
}

// until returns a block and the bytes after it, or nil while it is incomplete. end returns where the block ends, or -1 and
// where to go on.
func (g *gather) until(b []byte, end func(b []byte, from int) (at, next int)) (block, rest []byte, err error) {
	all, was := b, len(g.have)
	if was > 0 {
		all = append(g.have, b[:min(len(b), maxHead+1-was)]...)
	}
	at, next := end(all, g.line)
	switch {
	case at >= 0:
		g.have, g.line = nil, 0
		return all[:at], b[at-was:], g.c.wait(-int64(was))
	case len(all) > maxHead:
		return nil, nil, fmt.Errorf("a head has more than %d bytes", maxHead)
	case was == 0:
		all = bytes.Clone(b)
	}
	g.have, g.line = all, next
	return nil, nil, g.c.wait(int64(len(b)))
}

// endOfLine finds the end of a line.
func endOfLine(b []byte, from int) (at, next int) {
	if i := bytes.IndexByte(b[from:], '\n'); i >= 0 {
		return from + i + 1, 0
	}
	return -1, len(b)
}

// endOfLines finds the end of lines of which the last is empty.
func endOfLines(b []byte, from int) (at, next int) {
	for {
		i := bytes.IndexByte(b[from:], '\n')
		if i < 0 {
			return -1, from
		}
		if i == 0 || i == 1 && b[from] == '\r' {
			return from + i + 1, 0
		}
		from += i + 1
	}
}
