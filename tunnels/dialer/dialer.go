// Package dialer connects to a server over networks that fail: while there is no answer it begins
// further TCP connections beside the first, and where the environment names a proxy it connects
// through that with HTTP CONNECT.
package dialer

import (
	"context"
	"errors"
	"net"
	"time"
)

// Hurry is after how long without an answer a further connection is attempted beside the first:
// while a network is down TCP retries ever more slowly, and a new connection succeeds the moment
// it is back.
const Hurry = 500 * time.Millisecond

// ErrSilent is the error of an address that does not answer in time.
var ErrSilent = errors.New("no answer")

// Dial connects to an address, host:port. It returns the first connection that succeeds, or the
// first error; it returns ErrSilent when ctx ends before either.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result)
	pending := 0
	begin := func() {
		pending++
		go func() {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			results <- result{c, err}
		}()
	}
	defer func() { // connections that come too late are closed
		cancel()
		left := pending
		go func() {
			for range left {
				if r := <-results; r.conn != nil {
					_ = r.conn.Close()
				}
			}
		}()
	}()
	ticker := time.NewTicker(Hurry)
	defer ticker.Stop()
	begin()
	for {
		select {
		case r := <-results:
			pending--
			if r.err == nil {
				return r.conn, nil
			}
			return nil, r.err
		case <-ticker.C:
			begin()
		case <-ctx.Done():
			return nil, ErrSilent
		}
	}
}
