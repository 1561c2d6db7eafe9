package suites

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"switchyard.dev/tests/transparency/suite"
)

// TCP speaks to what ServeTCP serves.
type TCP struct {
	// Idle is how long a connection is idle.
	Idle time.Duration
}

// Name is suite.Suite.
func (TCP) Name() string { return "tcp" }

const much = 1 << 20

// Run is suite.Suite.
func (s TCP) Run(ctx context.Context, to suite.Target) (suite.Seen, error) {
	// Others may have used the server before.
	token := fmt.Sprint(rand.Uint64())
	saw := func(name string) string {
		return connected(ctx, to.Address, func(c *conn) (string, error) { return c.exchange("saw " + token + name) })
	}
	do := func(f func(*conn) (string, error)) func() string {
		return func() string { return connected(ctx, to.Address, f) }
	}
	seen := each(map[string]func() string{
		"echo":        do(echoes),
		"idle":        do(func(c *conn) (string, error) { return idles(c, s.Idle) }),
		"silent":      do(func(c *conn) (string, error) { return c.read.ReadString('\n') }),
		"client ends": do(clientEnds),
		"server ends": do(func(c *conn) (string, error) { return serverEnds(c, "end "+token+"ends") }),
		"client aborts": do(func(c *conn) (string, error) {
			if said, err := c.exchange("count " + token + "aborts"); err != nil {
				return said, err
			}
			return "", c.SetLinger(0)
		}),
		"server aborts": do(func(c *conn) (string, error) {
			if _, err := io.WriteString(c, "abort\n"); err != nil {
				return "", err
			}
			return c.rest()
		}),
	})
	seen["server ends/server"], seen["client aborts/server"] = saw("ends"), saw("aborts")
	return seen, ctx.Err()
}

// exchange sends a line and returns the response line.
func (c *conn) exchange(line string) (string, error) {
	_, err := io.WriteString(c, line+"\n")
	said, err := c.answer(err)
	return strings.TrimSpace(said), err
}

// echoes sends much while it reads the same.
func echoes(c *conn) (string, error) {
	if said, err := c.exchange("echo"); err != nil {
		return said, err
	}
	content, got := Noise(much), make([]byte, much)
	go func() { _, _ = c.Write(content) }()
	_, err := io.ReadFull(c.read, got)
	return fmt.Sprintf("the same: %t", bytes.Equal(content, got)), err
}

// idles is silent between two exchanges.
func idles(c *conn, during time.Duration) (string, error) {
	if said, err := c.exchange("echo"); err != nil {
		return said, err
	}
	if err := c.SetDeadline(time.Now().Add(during + patience)); err != nil {
		return "", err
	}
	time.Sleep(during)
	return c.exchange("again")
}

// clientEnds ends its side after much, and reads all of it, and the end.
func clientEnds(c *conn) (string, error) {
	if said, err := c.exchange("echo"); err != nil {
		return said, err
	}
	go func() {
		_, _ = c.Write(Noise(much))
		_ = c.CloseWrite()
	}()
	return c.rest()
}

// serverEnds reads to the end of the server's side, and sends much after it.
func serverEnds(c *conn, command string) (string, error) {
	if _, err := io.WriteString(c, command+"\n"); err != nil {
		return "", err
	}
	said, err := c.rest()
	if err != io.EOF { //nolint:errorlint // as rest gives it
		return said, err
	}
	time.Sleep(100 * time.Millisecond) // a program that takes the end of one side for that of both has closed both by now
	_, err = c.Write(Noise(much))
	return said + ", then the rest is sent", err
}
