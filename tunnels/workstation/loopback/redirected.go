package loopback

import (
	"context"
	"net"
	"net/netip"

	"switchyard.dev/tunnels/relay"
)

// Original returns the original destination of a redirected connection.
type Original func(net.Conn) (netip.AddrPort, error)

// ServeRedirected accepts connections that the rules of this machine redirect to a listener, and
// forwards each to its original destination, until ctx ends. A connection that was not
// redirected, or with a destination that cannot be reached, is cut.
func ServeRedirected(ctx context.Context, l net.Listener, original Original, open Opener) error {
	return serve(ctx, l, func(ctx context.Context, c net.Conn) {
		to, err := original(c)
		if err != nil {
			relay.Cut(relay.Of(c))
			return
		}
		open.through(ctx, c, to.Addr().String(), to.Port(), func(err error) error {
			if err != nil {
				relay.Cut(relay.Of(c))
			}
			return err
		})
	})
}
