package suites

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"time"

	"switchyard.dev/tests/transparency/suite"
)

// Redis speaks to a redis server, which routing keys mean nothing to.
type Redis struct {
	// Idle is how long a connection is idle.
	Idle time.Duration
}

// Name is suite.Suite.
func (Redis) Name() string { return "redis" }

// Run is suite.Suite.
func (s Redis) Run(ctx context.Context, to suite.Target) (suite.Seen, error) {
	cases := map[string]func(*conn) (string, error){
		"ping":   func(c *conn) (string, error) { return c.command("PING") },
		"inline": func(c *conn) (string, error) { _, err := io.WriteString(c, "PING\r\n"); return c.answer(err) },
		"wrong":  func(c *conn) (string, error) { return c.command("NONSENSE") },
		"quit": func(c *conn) (string, error) {
			response, err := c.command("QUIT")
			if err != nil {
				return response, err
			}
			left, err := c.rest()
			return response + left, err
		},
		"idle": func(c *conn) (string, error) {
			if response, err := c.command("PING"); err != nil {
				return response, err
			}
			if err := c.SetDeadline(time.Now().Add(s.Idle + patience)); err != nil {
				return "", err
			}
			time.Sleep(s.Idle)
			return c.command("PING")
		},
		"half-closed": func(c *conn) (string, error) {
			if _, err := io.WriteString(c, command("PING")); err != nil {
				return "", err
			}
			if err := c.CloseWrite(); err != nil {
				return "", err
			}
			return c.rest()
		},
		"pipeline":     pipeline,
		"large value":  large,
		"subscription": func(c *conn) (string, error) { return subscription(ctx, c, to.Address) },
	}
	response := map[string]func() string{}
	for name, f := range cases {
		response[name] = func() string { return connected(ctx, to.Address, f) }
	}
	return each(response), ctx.Err()
}

// command is one in redis's protocol.
func command(words ...string) string {
	response := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		response += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	return response
}

func (c *conn) command(words ...string) (string, error) {
	_, err := io.WriteString(c, command(words...))
	return c.answer(err)
}

// answer reads a line.
func (c *conn) answer(err error) (string, error) {
	if err != nil {
		return "", err
	}
	return c.read.ReadString('\n')
}

// pipeline sends many commands before it reads an answer.
func pipeline(c *conn) (string, error) {
	const many = 10_000
	go func() { _, _ = io.WriteString(c, strings.Repeat(command("ECHO", "again"), many)) }()
	sum := sha256.New()
	_, err := io.CopyN(sum, c.read, many*int64(len("$5\r\nagain\r\n")))
	return fmt.Sprintf("%x", sum.Sum(nil)), err
}

// large sets a value of 8 MiB and gets it.
func large(c *conn) (string, error) {
	value := Noise(8 << 20)
	if response, err := c.command("SET", "large", string(value)); err != nil || response != "+OK\r\n" {
		return response, err
	}
	if response, err := c.command("GET", "large"); err != nil {
		return response, err
	}
	got := make([]byte, len(value))
	_, err := io.ReadFull(c.read, got)
	return fmt.Sprintf("the same: %t", bytes.Equal(got, value)), err
}

// subscription takes what another connection publishes, after a while.
func subscription(ctx context.Context, c *conn, address string) (string, error) {
	if _, err := c.command("SUBSCRIBE", "news"); err != nil {
		return "", err
	}
	if _, err := io.CopyN(io.Discard, c.read, int64(len("$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"))); err != nil {
		return "no subscription,", err
	}
	time.Sleep(time.Second)
	took := connected(ctx, address, func(other *conn) (string, error) { return other.command("PUBLISH", "news", "hello") })
	got := make([]byte, len("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n"))
	_, err := io.ReadFull(c.read, got)
	return fmt.Sprintf("published to %q, heard %q", took, got), err
}
