package frame

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
)

// patience is how long anything may take that must happen.
const patience = 2 * time.Minute

// Crowd is a set of clients, each with a separate connection, like pods.
type Crowd[C any] struct {
	All    []C
	conns  []*grpc.ClientConn
	failed chan error
}

// Connect connects n clients to an address and returns when each has reported that it is ready.
// run is the whole work of one client; it returns only with an error.
func (c *Crowd[C]) Connect(n int, address string, options []grpc.DialOption, member func(i int) C, run func(one C, conn *grpc.ClientConn, ready func()) error) error {
	c.failed = make(chan error, 1)
	ready := make(chan struct{}, n)
	for i := range n {
		conn, err := grpc.NewClient("passthrough:"+address, options...)
		if err != nil {
			return err
		}
		one := member(i)
		c.conns, c.All = append(c.conns, conn), append(c.All, one)
		go func() {
			err := run(one, conn, func() { ready <- struct{}{} })
			select {
			case c.failed <- err:
			default: // Another has failed before.
			}
		}()
	}
	late := time.After(patience)
	for i := range n {
		select {
		case <-ready:
		case err := <-c.failed:
			return err
		case <-late:
			return fmt.Errorf("%d of %d clients are not ready after %s", n-i, n, patience)
		}
	}
	return nil
}

// Await returns once has is true of every client. It checks again after each pause.
func (c *Crowd[C]) Await(pause time.Duration, has func(C) bool) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
		behind := 0
		for _, one := range c.All {
			if !has(one) {
				behind++
			}
		}
		select {
		case err := <-c.failed:
			return err
		default:
		}
		if behind == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d clients lack due updates", behind, len(c.All))
		}
	}
}

// Close ends all connections.
func (c *Crowd[C]) Close() (err error) {
	for _, conn := range c.conns {
		err = errors.Join(err, conn.Close())
	}
	return err
}
