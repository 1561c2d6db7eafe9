package serve

import (
	"context"
	"net"

	"google.golang.org/grpc"
)

// Run serves on a listener until ctx ends, and then ends all streams and returns
// nil; any other end is an error. Options, such as credentials, come after ServerOptions.
func (s *Server) Run(ctx context.Context, l net.Listener, options ...grpc.ServerOption) error {
	g := grpc.NewServer(append(ServerOptions(), options...)...)
	s.Register(g)
	defer context.AfterFunc(ctx, g.Stop)()
	if err := g.Serve(l); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}
