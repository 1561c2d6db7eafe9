package target

import (
	"bytes"
	"strconv"
	"strings"
)

// maxLine bounds an incomplete line in memory. The server refuses longer ones.
const maxLine = 2 << 20

// state is the part of a stream of requests that is expected next.
type state int

const (
	start   state = iota // a request line
	fields               // a header field, or the end of the headers
	size                 // the size of a chunk
	trailer              // a trailer field, or the end of the body
	raw                  // not HTTP/1: passed on as it is
)

// requests follows a stream of HTTP/1 requests, and replaces their targets.
type requests struct {
	// replace returns the text that replaces a target.
	replace func(method, text string) string
	// http reports whether bytes after a request for an upgrade begin a request; nil: always.
	http func([]byte) bool

	state    state
	held     []byte // of a line
	left     int64  // of the body, or of a chunk
	length   int64
	method   string
	chunked  bool
	upgraded bool // perhaps
}

// feed takes the next bytes of a stream and returns the bytes to pass on.
func (r *requests) feed(in []byte) (out []byte) {
	if r.upgraded && r.left == 0 && r.state == start && len(in) > 0 {
		if r.upgraded = false; r.http != nil && !r.http(in) {
			r.state = raw
		}
	}
	for len(in) > 0 {
		if r.state == raw {
			return append(append(out, r.release()...), in...)
		}
		if r.left > 0 {
			n := min(r.left, int64(len(in)))
			out, in, r.left = append(out, in[:n]...), in[n:], r.left-n
			continue
		}
		end := bytes.IndexByte(in, '\n') + 1
		if end == 0 {
			if r.held = append(r.held, in...); len(r.held) > maxLine {
				r.state = raw
				return append(out, r.release()...)
			}
			return out
		}
		line := append(r.release(), in[:end]...)
		out, in = append(out, r.take(line)...), in[end:]
	}
	return out
}

// release returns the held bytes.
func (r *requests) release() []byte {
	held := r.held
	r.held = nil
	return held
}

// take takes a whole line, and returns its replacement.
func (r *requests) take(line []byte) []byte {
	text := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
	switch r.state {
	case start:
		return r.begin(line, text)
	case fields:
		r.field(text)
	case size:
		digits, _, _ := strings.Cut(text, ";")
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 16, 48)
		switch {
		case err != nil || n < 0:
			r.state = raw
		case n == 0:
			r.state = trailer
		default:
			r.left = n + int64(len("\r\n"))
		}
	case trailer:
		if text == "" {
			r.state = start
		}
	}
	return line
}

// begin takes a request line. An empty line may precede one.
func (r *requests) begin(line []byte, text string) []byte {
	if text == "" {
		return line
	}
	method, rest, first := strings.Cut(text, " ")
	target, version, second := strings.Cut(rest, " ")
	if !first || !second || !strings.HasPrefix(version, "HTTP/1.") {
		r.state = raw // HTTP/2, or for the server to refuse
		return line
	}
	r.state, r.method, r.length, r.chunked, r.upgraded = fields, method, 0, false, false
	if method == "CONNECT" {
		return line
	}
	return []byte(method + " " + r.replace(method, target) + " " + version + string(line[len(text):]))
}

// field takes a line of the headers.
func (r *requests) field(text string) {
	if text == "" {
		r.state, r.left = start, r.length
		switch {
		case r.method == "CONNECT":
			r.state = raw
		case r.chunked:
			r.state, r.left = size, 0
		}
		return
	}
	name, value, ok := strings.Cut(text, ":")
	if !ok || strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t") {
		r.state = raw // for the server to judge
		return
	}
	value = strings.TrimSpace(value)
	switch strings.ToLower(name) {
	case "content-length":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			r.state = raw
		}
		r.length = n
	case "transfer-encoding":
		r.chunked = true
	case "upgrade":
		r.upgraded = true
	}
}
