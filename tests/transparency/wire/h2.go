package wire

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"switchyard.dev/tests/transparency/suite"
)

// frame is how much of a header block or of a body one frame carries.
const frame = 16 << 10

// h2 is one connection of HTTP/2 with one request, and another one after it.
type h2 struct {
	// fields come after :method GET, :scheme http, :authority app and :path /, or
	// replace one of these; a value of drop takes it out.
	fields [][2]string
	body   string
	// trailers end the request.
	trailers [][2]string
	// status: of the answer only the status counts.
	status bool
	// open: the request does not end.
	open bool
}

const drop = "\x00drop"

// run returns the answers as text.
func (c h2) run(ctx context.Context, to suite.Target) string {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", to.Address)
	if err != nil {
		return "no connection"
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * patience))
	s := newSession(conn)
	if err := s.begin(); err != nil {
		return ending(err)
	}
	go c.send(s, to)
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	words, open := s.answer(1, c.status)
	if !open {
		return words
	}
	go h2{fields: [][2]string{{":path", "/next"}}}.sendOn(s, 3, to)
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	after, _ := s.answer(3, true)
	return words + "\nthen\n" + after
}

func (c h2) send(s *session, to suite.Target) { c.sendOn(s, 1, to) }

// sendOn sends the request as a stream. A failure shows in the answers.
func (c h2) sendOn(s *session, stream uint32, to suite.Target) {
	fields := c.request(to)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.headers(stream, fields, c.body == "" && c.trailers == nil && !c.open) != nil {
		return
	}
	for body := c.body; body != ""; {
		n := min(frame, len(body))
		last := n == len(body) && c.trailers == nil && !c.open
		if s.framer.WriteData(stream, last, []byte(body[:n])) != nil {
			return
		}
		body = body[n:]
	}
	if c.trailers != nil {
		_ = s.headers(stream, c.trailers, true)
	}
	_ = s.out.Flush()
}

// request returns the fields on the wire.
func (c h2) request(to suite.Target) [][2]string {
	fields := [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", cmp.Or(to.Host, "app")}, {":path", "/"}}
	var more [][2]string
	for _, f := range c.fields {
		i := slices.IndexFunc(fields, func(have [2]string) bool { return have[0] == f[0] && strings.HasPrefix(f[0], ":") })
		if i >= 0 {
			fields[i] = f
		} else {
			more = append(more, [2]string{strings.TrimPrefix(f[0], "+"), f[1]})
		}
	}
	fields = slices.DeleteFunc(fields, func(f [2]string) bool { return f[1] == drop })
	if to.Key != "" {
		fields = append(fields, [2]string{"baggage", keyMember(to)})
	}
	if to.Credential != "" {
		fields = append(fields, [2]string{strings.ToLower(suite.CredentialHeader), to.Credential})
	}
	return append(fields, more...)
}

// headers writes a header block in as many frames as it takes.
func (s *session) headers(stream uint32, fields [][2]string, end bool) error {
	s.block.Reset()
	for _, f := range fields {
		if err := s.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return err
		}
	}
	rest := s.block.Bytes()
	n := min(frame, len(rest))
	err := s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: rest[:n], EndStream: end, EndHeaders: n == len(rest)})
	for rest = rest[n:]; err == nil && len(rest) > 0; rest = rest[n:] {
		n = min(frame, len(rest))
		err = s.framer.WriteContinuation(stream, n == len(rest), rest[:n])
	}
	return errors.Join(err, s.out.Flush())
}

func newSession(conn net.Conn) *session {
	s := &session{conn: conn, out: bufio.NewWriter(conn), block: &bytes.Buffer{}}
	s.framer = http2.NewFramer(s.out, bufio.NewReader(conn))
	s.framer.AllowIllegalWrites = true
	s.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	s.framer.MaxHeaderListSize = 4 << 20
	s.encoder = hpack.NewEncoder(s.block)
	return s
}

// fieldsOf returns header fields as text, sorted, without the date.
func fieldsOf(f *http2.MetaHeadersFrame, status bool) string {
	var lines []string
	for _, field := range f.Fields {
		if field.Name == ":status" {
			lines = append(lines, field.Value)
		} else if field.Name != "date" && !status {
			lines = append(lines, fmt.Sprintf("  %s: %s", field.Name, brief(field.Value)))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
