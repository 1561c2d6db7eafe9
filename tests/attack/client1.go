package attack

import (
	"bytes"
	"fmt"
	"net"
)

// begin1 sends a request of HTTP/1, or the beginning of one.
func begin1(c net.Conn, k Kind) error {
	text := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: attack\r\n", k.path())
	switch {
	case k.Head > 0:
		for len(text) < k.Head {
			text = fmt.Appendf(text, "x-%d: %s\r\n", len(text), bytes.Repeat([]byte("x"), fieldSize))
		}
	case k.Up:
		text = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: attack\r\nContent-Length: %d\r\n\r\n", k.path(), int64(1)<<40)
	default:
		text = append(text, "\r\n"...)
	}
	_, err := c.Write(text)
	return err
}

// fieldSize is how long the values in a large head are.
const fieldSize = 8 << 10
