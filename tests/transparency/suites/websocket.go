package suites

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"switchyard.dev/tests/transparency/suite"
	"switchyard.dev/xds/routingkey"
)

// WebSocket tests an application that echoes.
type WebSocket struct {
	// Path is where it does, and Words whether it answers in words of its own, which are
	// not compared.
	Path  string
	Words bool
	// Largest is the most bytes of a message.
	Largest int
}

// Name is suite.Suite.
func (WebSocket) Name() string { return "websocket" }

// closeCodes are those that an endpoint may send, and some that it may not.
var closeCodes = []int{
	1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 1015, 1016, 2999, 3000, 3999, 4000, 4999, 5000,
}

// Run is suite.Suite.
func (s WebSocket) Run(ctx context.Context, to suite.Target) (suite.Seen, error) {
	p := prober{ctx, to, s}
	dialled := func(change func(*websocket.Dialer, http.Header), f func(*websocket.Conn) string) func() string {
		return func() string { return p.with(change, f) }
	}
	cases := map[string]func() string{
		"handshake":              dialled(nil, nil),
		"ping":                   dialled(nil, p.ping),
		"fragments":              dialled(nil, p.fragments),
		"subprotocol":            dialled(func(d *websocket.Dialer, _ http.Header) { d.Subprotocols = []string{"chat", "superchat"} }, p.echo(5)),
		"extension":              dialled(func(d *websocket.Dialer, _ http.Header) { d.EnableCompression = true }, p.echo(5)),
		"foreign origin":         dialled(func(_ *websocket.Dialer, h http.Header) { h.Set("Origin", "http://elsewhere.example") }, p.echo(5)),
		"ended by the client":    dialled(nil, p.halfClosed),
		"refused: version":       p.refused(map[string]string{"Sec-WebSocket-Version": "12"}),
		"refused: key":           p.refused(map[string]string{"Sec-WebSocket-Key": "short"}),
		"refused: no connection": p.refused(map[string]string{"Connection": "keep-alive"}),
	}
	for _, size := range []int{0, 1, 125, 126, 1<<16 - 1, 1 << 16, 1 << 20, s.Largest} {
		cases[fmt.Sprintf("message/%d", size)] = dialled(nil, p.echo(size))
	}
	for _, code := range closeCodes {
		cases[fmt.Sprintf("close/%d", code)] = dialled(nil, p.closed(code))
	}
	return each(cases), ctx.Err()
}

// prober is one run.
type prober struct {
	ctx  context.Context
	to   suite.Target
	what WebSocket
}

// with opens a connection, and returns the result of f, or else the answer.
func (p prober) with(change func(*websocket.Dialer, http.Header), f func(*websocket.Conn) string) string {
	dialer := &websocket.Dialer{HandshakeTimeout: 10 * time.Second}
	header := http.Header{"Host": {hostOf(p.to)}}
	if p.to.Credential != "" {
		header.Set(suite.CredentialHeader, p.to.Credential)
	}
	if p.to.Key != "" {
		header.Set(routingkey.Baggage, baggage(p.to.Key))
	}
	if change != nil {
		change(dialer, header)
	}
	c, answer, err := dialer.DialContext(p.ctx, "ws://"+p.to.Address+p.what.Path, header)
	if answer == nil {
		return failure(err, p.to)
	}
	defer answer.Body.Close()
	said := head(answer)
	if err != nil {
		return said + " " + failure(err, p.to)
	}
	defer c.Close()
	if f == nil {
		return said + " " + headers(answer)
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return failure(err, p.to)
	}
	return said + ", " + f(c)
}

func (p prober) echo(size int) func(*websocket.Conn) string {
	return func(c *websocket.Conn) string {
		if err := c.WriteMessage(websocket.BinaryMessage, Noise(size)); err != nil {
			return failure(err, p.to)
		}
		return p.heard(c)
	}
}

// heard returns what the next message is.
func (p prober) heard(c *websocket.Conn) string {
	kind, message, err := c.ReadMessage()
	if err != nil {
		return p.ended(err)
	}
	if p.what.Words {
		return fmt.Sprintf("a message of kind %d", kind)
	}
	return fmt.Sprintf("a message of kind %d, %d bytes %x", kind, len(message), sha256.Sum256(message))
}

// ended returns how a connection has ended.
func (p prober) ended(err error) string {
	if code, ok := errors.AsType[*websocket.CloseError](err); ok {
		return fmt.Sprintf("closed with %d %q", code.Code, code.Text)
	}
	return failure(err, p.to)
}

func (p prober) ping(c *websocket.Conn) string {
	var heard string
	c.SetPongHandler(func(data string) error { heard += fmt.Sprintf("pong %q, ", data); return nil })
	for _, data := range []string{"", "hello", string(bytes.Repeat([]byte("p"), 125))} {
		if err := c.WriteControl(websocket.PingMessage, []byte(data), time.Now().Add(time.Second)); err != nil {
			return failure(err, p.to)
		}
	}
	return p.echo(1)(c) + ", after " + heard
}

// fragments sends one message in many.
func (p prober) fragments(c *websocket.Conn) string {
	w, err := c.NextWriter(websocket.TextMessage)
	if err != nil {
		return failure(err, p.to)
	}
	for range 20 {
		if _, err := io.WriteString(w, string(bytes.Repeat([]byte("f"), 4096))); err != nil {
			return failure(err, p.to)
		}
	}
	if err := w.Close(); err != nil {
		return failure(err, p.to)
	}
	return p.heard(c)
}

// closed returns a function that sends a close frame and returns the response, and whether the
// connection ends.
func (p prober) closed(code int) func(*websocket.Conn) string {
	return func(c *websocket.Conn) string {
		payload := append([]byte{byte(code >> 8), byte(code)}, "bye"...)
		if err := c.WriteControl(websocket.CloseMessage, payload, time.Now().Add(time.Second)); err != nil {
			return failure(err, p.to)
		}
		said := p.heard(c)
		left, err := io.Copy(io.Discard, c.NetConn())
		return said + fmt.Sprintf(", then %d bytes and the end: %t", left, err == nil)
	}
}

// halfClosed ends the client's side of the connection without a close frame.
func (p prober) halfClosed(c *websocket.Conn) string {
	half, ok := c.NetConn().(interface{ CloseWrite() error })
	if !ok {
		return "no TCP"
	}
	if err := half.CloseWrite(); err != nil {
		return failure(err, p.to)
	}
	return p.heard(c)
}

// refused sends a handshake that is wrong.
func (p prober) refused(headers map[string]string) func() string {
	return func() string {
		c := newClient("h1", p.to)
		defer c.close()
		return c.exchange(p.ctx, http.MethodGet, p.what.Path, nil, func(r *http.Request) {
			right := map[string]string{
				"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
			}
			for _, some := range []map[string]string{right, headers} {
				for name, value := range some {
					r.Header.Set(name, value)
				}
			}
		})
	}
}
