package parse

import (
	"bytes"
	"cmp"
	"errors"
	"strconv"
	"strings"
)

// state is the next part of a direction of HTTP/1.
type state int

const (
	head     state = iota
	fixed          // so many bytes of a body
	chunk          // the line before a chunk
	data           // a chunk
	dataEnd        // the line after it
	trailers       // the lines after the last chunk
	rest           // a body that ends with the connection
	tunnel         // another protocol
)

// one reads one direction of HTTP/1.
type one struct {
	c      *Conn
	of     Side
	state  state
	gather gather
	left   uint64
	// now is the exchange of the body that is read.
	now   *transaction
	frame *frames // of WebSocket
}

// read implements side.
func (o *one) read(b []byte) ([]byte, error) {
	o.gather.c = o.c
	switch o.state {
	case head:
		return o.head(b)
	case fixed, data:
		n := min(uint64(len(b)), o.left)
		o.now.body(o.of, b[:n])
		if o.left -= n; o.left == 0 && o.state == fixed {
			o.done()
		} else if o.left == 0 {
			o.state = dataEnd
		}
		return b[n:], nil
	case chunk, dataEnd:
		line, after, err := o.gather.until(b, endOfLine)
		if line == nil || err != nil {
			return nil, err
		}
		return after, o.line(line)
	case trailers:
		block, after, err := o.gather.until(b, endOfLines)
		if block == nil || err != nil {
			return nil, err
		}
		fields, err := readFields(string(block))
		if len(fields) > 0 && o.now.to != nil && !o.now.over {
			o.now.to.Trailers(o.of, fields)
		}
		o.done()
		return after, err
	case tunnel:
		if o.frame != nil {
			o.frame.read(o.now, o.of, b)
			return nil, nil
		}
	}
	o.now.body(o.of, b)
	return nil, nil
}

// line reads the line before or after a chunk.
func (o *one) line(line []byte) error {
	text := strings.TrimSpace(string(line))
	if o.state == dataEnd {
		if text != "" {
			return errors.New("a chunk does not end where it should")
		}
		o.state = chunk
		return nil
	}
	size, _, _ := strings.Cut(text, ";")
	n, err := strconv.ParseUint(strings.TrimSpace(size), 16, 63)
	if err != nil {
		return errors.New("a chunk has no size")
	}
	if o.left, o.state = n, data; n == 0 {
		o.state = trailers
	}
	return nil
}

// done ends the message that is read.
func (o *one) done() {
	t := o.now
	o.state, o.now = head, nil
	if o.of == Response {
		o.c.queue = o.c.queue[1:]
		if !t.ended[Request] {
			o.c.late = t
		}
	}
	if t.end(o.of) && o.c.late == t {
		o.c.late = nil
	}
}

func (o *one) head(b []byte) ([]byte, error) {
	if o.of == Request && len(o.gather.have) == 0 {
		if b = bytes.TrimLeft(b, "\r\n"); len(b) == 0 {
			return nil, nil
		}
	}
	if o.of == Request && !o.c.known && o.gather.line == 0 {
		if other, err := o.first(b); other || err != nil {
			return b, err
		}
	}
	block, after, err := o.gather.until(b, endOfLines)
	if block == nil || err != nil {
		return nil, err
	}
	if o.of == Request {
		return after, o.request(string(block))
	}
	return after, o.response(string(block))
}

// first reads the first bytes of a client. It reports whether they are those of HTTP/2, which reads them then.
func (o *one) first(b []byte) (two bool, err error) {
	begin := b
	if len(o.gather.have) > 0 {
		begin = append(bytes.Clone(o.gather.have), b[:min(len(b), maxMethod+len(preface))]...)
	}
	if n := min(len(begin), len(preface)); string(begin[:n]) == preface[:n] && n > len("PRI ") {
		return true, o.c.two(o.gather.have)
	}
	method, _, spaced := bytes.Cut(begin, []byte(" "))
	if !spaced && len(method) > maxMethod || !token(strings.TrimRight(string(method[:min(len(method), maxMethod)]), "\r\n")) {
		return false, errOther
	}
	if at, _ := endOfLine(begin, 0); at >= 0 {
		if method, _, _ := splitRequest(strings.TrimRight(string(begin[:at]), "\r\n")); method == "" {
			return false, errOther
		}
	}
	return false, nil
}

// begins reports whether a request begins in the next bytes, and whether it is sure, without reading them, that no other one does.
func (o *one) begins(b []byte) (begins, sure bool) {
	switch {
	case o.state == tunnel, o.state == fixed && uint64(len(b)) <= o.left:
		return false, true
	case o.state != head, len(o.gather.have) > 0, b[0] == '\r', b[0] == '\n':
		return false, false
	}
	at, _ := endOfLines(b, 0)
	return at > 0, at == len(b) || at > 0 && uint64(len(b)-at) <= lengthOf(b[:at])
}

func (o *one) request(block string) error {
	h, err := readRequest(block)
	if err != nil {
		return err
	}
	chunked, length, err := framing(h.Fields)
	if err != nil {
		return err
	}
	t, err := o.c.begin(h)
	if err != nil {
		return err
	}
	t.upgrade = Value(h.Fields, "upgrade")
	o.c.queue, o.now = append(o.c.queue, t), t
	o.body(chunked, max(length, 0))
	return nil
}

// body begins a body.
func (o *one) body(chunked bool, length int64) {
	switch {
	case chunked:
		o.state = chunk
	case length > 0:
		o.state, o.left = fixed, uint64(length)
	case length < 0:
		o.state = rest
	default:
		o.done()
	}
}

func (o *one) response(block string) error {
	h, err := readResponse(block)
	if err != nil {
		return err
	}
	if len(o.c.queue) == 0 {
		return errors.New("a response without a request")
	}
	t := o.c.queue[0]
	if h.Status < 200 && h.Status != 101 {
		return nil
	}
	protocol := cmp.Or(Value(h.Fields, "upgrade"), t.upgrade)
	if h.Status == 101 && strings.EqualFold(protocol, "h2c") {
		return o.c.upgrade(t)
	}
	if o.now = t; t.to != nil && !t.over {
		t.to.Respond(h)
	}
	if h.Status == 101 || t.method == "CONNECT" && h.Status < 300 {
		o.tunnel(t, strings.EqualFold(protocol, "websocket"))
		return nil
	}
	if t.method == "HEAD" || h.Status == 204 || h.Status == 304 {
		o.done()
		return nil
	}
	chunked, length, err := framing(h.Fields)
	if err != nil {
		return err
	}
	o.body(chunked, length)
	return nil
}

// tunnel switches both directions to another protocol.
func (o *one) tunnel(t *transaction, webSocket bool) {
	client := o.c.sides[Request].(*one)
	for _, s := range []*one{client, o} {
		s.state, s.now = tunnel, t
		if webSocket {
			s.frame = &frames{}
		}
	}
	t.ended[Request] = false
}

// end implements side.
func (o *one) end(last bool) {
	switch {
	case o.state == tunnel:
		o.now.end(o.of)
		return
	case o.state == rest:
		o.done()
	}
	if last {
		o.c.unanswered(closed)
	}
}
