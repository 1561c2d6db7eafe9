package workstation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Address is a Road: the address of a tunnel proxy, host:port.
type Address string

// hurry is after how long without an answer a further connection is attempted beside the first:
// while a network is down TCP retries ever more slowly, and a new connection succeeds the moment
// it is back.
const hurry = 500 * time.Millisecond

// Dial implements Road.
func (a Address) Dial(ctx context.Context) (net.Conn, error) {
	c, err := dial(ctx, string(a))
	if err != nil {
		return nil, a.explained(err)
	}
	return c, nil
}

// errSilent is the error of an address that does not answer in time.
var errSilent = errors.New("no answer")

// dial connects to an address.
func dial(ctx context.Context, address string) (net.Conn, error) {
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
	ticker := time.NewTicker(hurry)
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
			return nil, errSilent
		}
	}
}

// explained adds the remedy to an error.
func (a Address) explained(err error) error {
	var name *net.DNSError
	switch {
	case errors.Is(err, errSilent):
		return fmt.Errorf("%s does not answer: see that a tunnel proxy listens there, and that no firewall is in between", string(a))
	case errors.As(err, &name) && name.IsNotFound:
		return Final(fmt.Errorf("there is no host of the name in %s: give the address of a tunnel proxy, usually with port 7777", string(a)))
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens on %s: give the address of a tunnel proxy, usually with port 7777", string(a))
	}
	return fmt.Errorf("%s is not reached: %w", string(a), err)
}
