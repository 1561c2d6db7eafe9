package local

import (
	"context"
	"net"

	"github.com/spf13/pflag"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/loopback"
)

// Tunnel is a connection into the cluster for other commands, as proxy has it.
type Tunnel struct{ place place }

// NewTunnel returns a Tunnel with the flags of proxy that name the tunnel proxies.
func NewTunnel(s *command.Session, f *pflag.FlagSet) *Tunnel {
	t := &Tunnel{place{s: s}}
	t.place.flags(f)
	return t
}

// During keeps a tunnel for as long as do takes. dial opens connections to addresses of the cluster, host:port.
func (t *Tunnel) During(ctx context.Context, do func(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error)) error) error {
	return t.place.during(ctx, func(ctx context.Context, w *workstation.Workstation) error {
		return do(ctx, loopback.Opener(w.Open).Dial)
	})
}
