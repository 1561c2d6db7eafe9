package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"switchyard.dev/tests/transparency/suite"
)

// next is the request that shows whether a connection still serves.
const next = "GET /next HTTP/1.1\r\nHost: app\r\n{key}\r\n"

// h1 is one connection of HTTP/1.
type h1 struct {
	// send is what the client sends at first; {key} is replaced by the header line that carries
	// the routing key.
	send string
	// then is sent after the first answer in place of next.
	then string
	// answers is how many are expected before then is sent; 0 for one.
	answers int
	// half: the client ends its sending half after send; nothing is sent then.
	half bool
	// reason: the reason phrase counts.
	reason bool
	// status: of the answer only the status counts, for servers refuse in words of
	// their own.
	status bool
	// exact: the case of header names counts, and their order.
	exact bool
	// method decides whether an answer has a body: HEAD, CONNECT.
	method string
}

// run returns the answers as text.
func (c h1) run(ctx context.Context, to suite.Target) string {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", to.Address)
	if err != nil {
		return "no connection"
	}
	defer conn.Close()
	// A server may answer and close before it has read all; then writing fails, and its answer
	// counts.
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = conn.SetWriteDeadline(time.Now().Add(patience))
		_, err := io.WriteString(conn, c.fill(c.send, to))
		if c.half && err == nil {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}()
	r := reader{h1: c, conn: conn, in: bufio.NewReader(conn)}
	for range max(c.answers, 1) {
		if !r.answer() {
			return r.words()
		}
	}
	if c.half {
		r.end()
		return r.words()
	}
	<-written
	if r.tunnel {
		r.echo()
		return r.words()
	}
	then := c.then
	if then == "" {
		then = next
	}
	_ = conn.SetWriteDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, c.fill(then, to))
	r.say("then")
	r.status, r.method = true, ""
	r.answer()
	return r.words()
}

func (c h1) fill(text string, to suite.Target) string {
	if to.Host != "" {
		text = strings.ReplaceAll(text, "Host: app\r\n", "Host: "+to.Host+"\r\n")
	}
	return strings.ReplaceAll(text, "{key}", keyLine(to))
}

// reader reads answers and describes them.
type reader struct {
	h1
	conn   net.Conn
	in     *bufio.Reader
	said   []string
	tunnel bool
}

func (r *reader) say(format string, words ...any) {
	r.said = append(r.said, fmt.Sprintf(format, words...))
}

func (r *reader) words() string { return strings.Join(r.said, "\n") }

// answer reads one, with those that come before it, and reports whether the
// connection may go on.
func (r *reader) answer() bool {
	for {
		_ = r.conn.SetReadDeadline(time.Now().Add(patience))
		status, rest, err := r.head()
		switch {
		case err != nil:
			r.say("%s", ending(err))
			return false
		case status == 101 || r.method == "CONNECT" && status/100 == 2:
			r.tunnel = true
			return true
		case status >= 200:
			return r.body(status, rest)
		}
	}
}

// echo shows whether a tunnel carries bytes both ways.
func (r *reader) echo() {
	_ = r.conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(r.conn, "ping")
	answer := make([]byte, 4)
	n, err := io.ReadFull(r.in, answer)
	r.say("tunnel %q", answer[:n])
	if err != nil {
		r.say("%s", ending(err))
	}
}

// end reads to the end of the connection.
func (r *reader) end() {
	_ = r.conn.SetReadDeadline(time.Now().Add(patience))
	rest, err := io.ReadAll(r.in)
	if len(rest) > 0 {
		r.say("more %q", brief(string(rest)))
	}
	if err == nil {
		err = io.EOF
	}
	r.say("%s", ending(err))
}

// ending returns how a connection ended. A reset depends on the data in flight at the moment, so
// it counts as closed.
func ending(err error) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "silent"
	case errors.Is(err, errOdd):
		return err.Error()
	}
	return "closed"
}
