package loopback

import (
	"context"
	"net"
	"net/netip"

	"switchyard.dev/tunnels/relay"
)

// Original returns where a connection was to go that was led here.
type Original func(net.Conn) (netip.AddrPort, error)

// ServeRedirected takes connections that the rules of this machine lead to a listener, and leads
// each to where it was to go, until ctx ends. One whose destination is not reached, or that was
// led here by nobody, is cut.
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
