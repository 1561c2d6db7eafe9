package suites

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// conn is a connection of a case.
type conn struct {
	*net.TCPConn
	read *bufio.Reader
}

// connected opens a connection and returns the result of f.
func connected(ctx context.Context, address string, f func(*conn) (string, error)) string {
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return "not connected: " + ending(err)
	}
	defer c.Close()
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return "no TCP"
	}
	if err := tcp.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		return err.Error()
	}
	said, err := f(&conn{tcp, bufio.NewReader(tcp)})
	if err != nil {
		return said + " then " + ending(err)
	}
	return said
}

// ending is how a connection ended, in words without addresses.
func ending(err error) string {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "its end"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "a reset"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "a refusal"
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "nothing"
	}
	return err.Error()
}

// rest reads until the connection ends.
func (c *conn) rest() (string, error) {
	n, err := io.Copy(io.Discard, c.read)
	if err == nil {
		err = io.EOF
	}
	return fmt.Sprintf("%d bytes", n), err
}
