package workstation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"switchyard.dev/tunnels/dialer"
)

// Address is a Road: the address of a tunnel proxy, host:port.
type Address string

// Dial implements Road.
func (a Address) Dial(ctx context.Context) (net.Conn, error) {
	c, err := dialer.Dial(ctx, string(a))
	if err != nil {
		return nil, a.explained(err)
	}
	return c, nil
}

// explained adds the remedy to an error.
func (a Address) explained(err error) error {
	var name *net.DNSError
	switch {
	case errors.Is(err, dialer.ErrSilent):
		return fmt.Errorf("%s does not answer: see that a tunnel proxy listens there, and that no firewall is in between", string(a))
	case errors.As(err, &name) && name.IsNotFound:
		return Final(fmt.Errorf("there is no host of the name in %s: give the address of a tunnel proxy, usually with port 7777", string(a)))
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens on %s: give the address of a tunnel proxy, usually with port 7777", string(a))
	}
	return fmt.Errorf("%s is not reached: %w", string(a), err)
}
