package local

import (
	"context"
	"fmt"
	"net"

	"switchyard.dev/routeserver/cli/reach"
)

// tunnelProxy is the port of tunnel proxies for workstations.
var tunnelProxy = reach.Target{What: "tunnel proxy", Deployment: "tunnel-proxy", Pods: "app=tunnel-proxy", Port: 7777,
	Otherwise: "have the operator installed with its tunnels"}

// forwarded is a road through the API server of a cluster: a port-forward to a proxy that is
// ready, a new one for each connection.
type forwarded struct{ cluster reach.Cluster }

// Dial implements workstation.Road.
func (f forwarded) Dial(ctx context.Context) (net.Conn, error) {
	open, stop := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, stop)
	address, err := f.cluster.Forward(open, tunnelProxy)
	if err != nil {
		stop()
		return nil, err
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err == nil && !unhook() {
		_ = c.Close()
		err = ctx.Err()
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("forward a port to a tunnel proxy: %w", err)
	}
	return &forwardedConn{c, stop}, nil
}

// forwardedConn ends its port-forward with itself.
type forwardedConn struct {
	net.Conn
	stop context.CancelFunc
}

// Close implements net.Conn.
func (c *forwardedConn) Close() error {
	defer c.stop()
	return c.Conn.Close()
}
