package handshake_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"switchyard.dev/tunnels/socks/handshake"
)

// client sends bytes, and keeps the answers.
type client struct {
	io.Reader
	bytes.Buffer
}

func (c *client) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// anonymous accepts clients without credentials.
func (c *client) anonymous(methods []byte) error {
	if bytes.IndexByte(methods, handshake.Anonymous) < 0 {
		return errors.Join(errors.New("refused"), handshake.Refuse(c))
	}
	return handshake.Select(c, handshake.Anonymous)
}

func TestRequest(t *testing.T) {
	for _, tt := range []struct {
		name, sent, answer, host string
		port                     uint16
		refused                  bool
	}{
		{"a name", "\x05\x01\x00\x05\x01\x00\x03\x01a\x00\x50", "\x05\x00", "a", 80, false},
		{"an IPv4 address", "\x05\x02\x02\x00\x05\x01\x00\x01\x0a\x00\x00\x01\x01\x00", "\x05\x00", "10.0.0.1", 256, false},
		{"an IPv6 address", "\x05\x01\x00\x05\x01\x00\x04" + "\xfd" + string(make([]byte, 14)) + "\x01\x00\x50", "\x05\x00", "fd00::1", 80, false},
		{"no method in common", "\x05\x01\x02", "\x05\xff", "", 0, true},
		{"another version", "\x04\x01\x00\x50", "", "", 0, true},
		{"another version of the request", "\x05\x01\x00\x04\x01\x00\x03\x01a\x00\x50", "\x05\x00", "", 0, true},
		{"another command", "\x05\x01\x00\x05\x02\x00\x03\x01a\x00\x50", "\x05\x00\x05\x07\x00\x01\x00\x00\x00\x00\x00\x00", "", 0, true},
		{"another kind of address", "\x05\x01\x00\x05\x01\x00\x02", "\x05\x00\x05\x08\x00\x01\x00\x00\x00\x00\x00\x00", "", 0, true},
		{"half of a request", "\x05\x01\x00\x05\x01\x00\x03\x05a", "\x05\x00", "", 0, true},
	} {
		c := &client{Reader: bytes.NewReader([]byte(tt.sent))}
		host, port, err := handshake.Request(c, c.anonymous)
		if c.String() != tt.answer || (err != nil) != tt.refused || err == nil && (host != tt.host || port != tt.port) {
			t.Errorf("%s: %q, %d, %v, answered with %q", tt.name, host, port, err, c.String())
		}
	}
}

// FuzzRequest checks that no client gets a destination without authentication.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x01a\x00\x50"))
	f.Add([]byte("\x05\x01\x02\x05\x01\x00\x01\x0a\x00\x00\x01\x00\x50"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		c := &client{Reader: bytes.NewReader(sent)}
		admitted := false
		_, _, err := handshake.Request(c, func(methods []byte) error {
			err := c.anonymous(methods)
			admitted = err == nil
			return err
		})
		if err == nil && !admitted {
			t.Errorf("%q gets a destination without authentication", sent)
		}
	})
}
