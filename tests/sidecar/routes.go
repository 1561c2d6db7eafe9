package sidecar

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"switchyard.dev/xds/serve"
)

// ServeView serves the routes of a view at an address, to sidecars with tokens that identify accepts,
// until stop is called.
func ServeView(view serve.View, identify func(context.Context, string) (serve.Peer, error), address string) (s *serve.Server, stop func(), err error) {
	sessions, err := serve.FromView(serve.ViewConfig{View: view, Identify: identify})
	if err != nil {
		return nil, nil, err
	}
	return Serve(serve.Config{Sessions: sessions}, address)
}

// Serve serves routes at an address until stop is called.
func Serve(config serve.Config, address string, options ...grpc.ServerOption) (s *serve.Server, stop func(), err error) {
	if s, err = serve.New(config); err != nil {
		return nil, nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, err
	}
	g := grpc.NewServer(append(serve.ServerOptions(), options...)...)
	s.Register(g)
	go func() { _ = g.Serve(l) }() // until Stop
	return s, g.Stop, nil
}
