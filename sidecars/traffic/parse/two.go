package parse

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	preface   = http2.ClientPreface
	protocol2 = "HTTP/2"
	// maxTable is the largest table of header fields that one end can have the other keep.
	maxTable    = 64 << 10
	frameHeader = 9
)

// two reads one direction of HTTP/2.
type two struct {
	c  *Conn
	of Side
	// skip is how many bytes of the preface have not arrived.
	skip    int
	decoder *hpack.Decoder
	fields  []Field
	size    int

	header        [frameHeader]byte
	have          int
	kind          http2.FrameType
	flags         http2.Flags
	stream        uint32
	left          int // of the frame, without trailing padding
	before, after int // bytes to skip: before the content, and padding after it
	padded        bool
	reset         [4]byte
	resetHave     int
	// ends: the headers that are read end their side.
	ends bool
}

// two switches a connection to HTTP/2, of which some bytes of the preface have been read.
func (c *Conn) two(read []byte) error {
	c.known = true
	c.streams = map[uint32]*transaction{}
	for _, s := range []Side{Request, Response} {
		t := &two{c: c, of: s}
		t.decoder = hpack.NewDecoder(4096, t.field)
		t.decoder.SetAllowedMaxDynamicTableSize(maxTable)
		t.decoder.SetMaxStringLength(maxHead)
		c.sides[s] = t
	}
	c.sides[Request].(*two).skip = len(preface) - len(read)
	return c.wait(-int64(len(read)))
}

// upgrade switches to HTTP/2 after a request of HTTP/1.1, which becomes stream 1.
func (c *Conn) upgrade(t *transaction) error {
	c.queue = nil
	if err := c.two(nil); err != nil {
		return err
	}
	c.streams[1] = t
	return nil
}

func (t *two) field(f hpack.HeaderField) {
	if t.size += len(f.Name) + len(f.Value); t.size <= maxHead {
		t.fields = append(t.fields, Field{f.Name, f.Value})
	}
}

// read implements side.
func (t *two) read(b []byte) ([]byte, error) {
	if t.skip > 0 {
		n := min(t.skip, len(b))
		at := len(preface) - t.skip
		if string(b[:n]) != preface[at:at+n] {
			return nil, errors.New("not the preface of HTTP/2")
		}
		t.skip -= n
		return b[n:], nil
	}
	if t.have < frameHeader {
		n := copy(t.header[t.have:], b)
		if t.have += n; t.have == frameHeader {
			t.begin()
			return b[n:], t.ended()
		}
		return b[n:], nil
	}
	return t.payload(b)
}

// begin reads the header of a frame.
func (t *two) begin() {
	h := t.header
	t.left = int(h[0])<<16 | int(h[1])<<8 | int(h[2])
	t.kind, t.flags = http2.FrameType(h[3]), http2.Flags(h[4])
	t.stream = (uint32(h[5])<<24 | uint32(h[6])<<16 | uint32(h[7])<<8 | uint32(h[8])) & (1<<31 - 1)
	t.before, t.after, t.padded, t.resetHave = 0, 0, false, 0
	switch t.kind {
	case http2.FrameHeaders:
		if t.flags.Has(http2.FlagHeadersPriority) {
			t.before = 5
		}
		t.padded = t.flags.Has(http2.FlagHeadersPadded)
		t.ends = t.flags.Has(http2.FlagHeadersEndStream)
	case http2.FramePushPromise:
		t.before, t.padded, t.ends = 4, t.flags.Has(http2.FlagPushPromisePadded), false
	case http2.FrameData:
		t.padded = t.flags.Has(http2.FlagDataPadded)
	}
}

// payload reads bytes of a frame.
func (t *two) payload(b []byte) ([]byte, error) {
	if t.padded {
		if t.after = int(b[0]); t.after > t.left-1 {
			return nil, errors.New("a frame is shorter than its padding")
		}
		t.padded, t.left = false, t.left-1-t.after
		return b[1:], t.ended()
	}
	if n := min(t.before, t.left, len(b)); n > 0 {
		t.before, t.left = t.before-n, t.left-n
		return b[n:], t.ended()
	}
	if n := min(t.left, len(b)); n > 0 {
		t.left -= n
		if err := t.content(b[:n]); err != nil {
			return nil, err
		}
		return b[n:], t.ended()
	}
	n := min(t.after, len(b))
	t.after -= n
	return b[n:], t.ended()
}

func (t *two) content(b []byte) error {
	switch t.kind {
	case http2.FrameHeaders, http2.FrameContinuation, http2.FramePushPromise:
		if _, err := t.decoder.Write(b); err != nil {
			return fmt.Errorf("headers: %w", err)
		}
	case http2.FrameData:
		t.c.streams[t.stream].body(t.of, b)
	case http2.FrameRSTStream:
		t.resetHave += copy(t.reset[t.resetHave:], b)
	}
	return nil
}

// ended ends a frame of which all has arrived.
func (t *two) ended() error {
	if t.left > 0 || t.after > 0 || t.padded {
		return nil
	}
	t.have = 0
	switch t.kind {
	case http2.FrameHeaders, http2.FrameContinuation, http2.FramePushPromise:
		if t.flags.Has(http2.FlagHeadersEndHeaders) { // the same bit in all three
			return t.headers()
		}
	case http2.FrameData:
		if t.flags.Has(http2.FlagDataEndStream) {
			t.endStream(t.stream)
		}
	case http2.FrameRSTStream:
		if x := t.c.streams[t.stream]; x != nil {
			problem := "reset by the " + t.of.String()
			if x.ended[Response] && t.reset == [4]byte{} {
				problem = "" // the application needs no more of the request
			}
			x.close(problem)
			delete(t.c.streams, t.stream)
		}
	}
	return nil
}

func (t *two) endStream(stream uint32) {
	if x := t.c.streams[stream]; x != nil && x.end(t.of) {
		delete(t.c.streams, stream)
	}
}

// headers ends a list of headers.
func (t *two) headers() error {
	fields, large := t.fields, t.size > maxHead
	t.fields, t.size = make([]Field, 0, len(fields)), 0
	if err := t.decoder.Close(); err != nil {
		return fmt.Errorf("headers: %w", err)
	}
	if large {
		return fmt.Errorf("a list of headers has more than %d bytes", maxHead)
	}
	x := t.c.streams[t.stream]
	switch promised := t.kind == http2.FramePushPromise; {
	case promised, x == nil && t.of == Response:
		return nil
	case x == nil:
		h := headOf(fields)
		x, err := t.c.begin(h)
		if err != nil {
			return err
		}
		t.c.streams[t.stream] = x
	case t.of == Response && !x.responded:
		h := headOf(fields)
		if h.Status < 200 {
			return nil
		}
		x.responded = true
		if x.to != nil && !x.over {
			x.to.Respond(h)
		}
	case x.to != nil && !x.over:
		x.to.Trailers(t.of, fields)
	}
	if t.ends {
		t.endStream(t.stream)
	}
	return nil
}

// headOf takes the pseudo-headers out of a list.
func headOf(fields []Field) Head {
	h := Head{Protocol: protocol2}
	i := 0
	for ; i < len(fields) && len(fields[i].Name) > 0 && fields[i].Name[0] == ':'; i++ {
		switch v := fields[i].Value; fields[i].Name {
		case ":method":
			h.Method = v
		case ":path":
			h.Target = v
		case ":authority":
			h.Authority = v
		case ":status":
			h.Status, _ = strconv.Atoi(v) // 0 is not a final one
		}
	}
	h.Fields = fields[i:]
	return h
}

// end implements side.
func (t *two) end(last bool) {
	if last {
		t.c.unanswered(closed)
	}
}
