package proxy

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/trust"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

const (
	// every is the longest interval between messages of a stream of tunnels.
	every = time.Second
	// maxTaken bounds a message of a manager, in bytes.
	maxTaken = 16 << 20
)

// control serves the controller manager.
type control struct {
	tunnelv1.UnimplementedProxyControlServer
	main *Main
	// checks bounds concurrent token reviews.
	checks *callers.Pool
}

func newControl(m *Main) *control {
	return &control{main: m, checks: callers.NewPool("checks of tokens", callers.Bounds{Each: 4, Strangers: 16, Rate: 5, Burst: 32})}
}

// serve serves until ctx ends.
func (c *control) serve(ctx context.Context) error {
	server := grpc.NewServer(
		grpc.Creds(trust.ServerCredentials(c.main.cfg.TLS.Server(), false)),
		grpc.ConnectionTimeout(5*time.Second), grpc.MaxConcurrentStreams(4), grpc.MaxHeaderListSize(32<<10), grpc.MaxRecvMsgSize(maxTaken),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, MaxConnectionIdle: 15 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)
	tunnelv1.RegisterProxyControlServer(server, c)
	stopped := context.AfterFunc(ctx, server.Stop)
	defer stopped()
	if err := server.Serve(c.main.listeners.control); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// admit returns nil when the caller is the controller manager.
func (c *control) admit(ctx context.Context) error {
	remote := ""
	if p, is := peer.FromContext(ctx); is {
		remote = p.Addr.String()
	}
	token, is := "", false
	if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) == 1 {
		scheme, rest, _ := strings.Cut(values[0], " ")
		token, is = rest, strings.EqualFold(scheme, "bearer")
	}
	if !is {
		return status.Error(codes.Unauthenticated, "show a token of the audience tunnel-proxy, as metadata \"authorization: Bearer TOKEN\"")
	}
	who, err := c.main.cfg.Managers.VerifyAdmitted(ctx, token, func(*tokens.Claim) (func(), error) { return c.checks.Enter(callers.At(remote)) })
	switch {
	case errors.Is(err, tokens.ErrUnknown):
		return status.Error(codes.Unauthenticated, err.Error())
	case err != nil:
		return status.Error(codes.Unavailable, "the token could not be checked: try again")
	case who.String() != c.main.cfg.Manager:
		return status.Errorf(codes.PermissionDenied, "%s is not the controller manager, and only that may connect here", who)
	}
	c.main.listeners.control.Identify(remote)
	return nil
}

// Tunnels implements tunnelv1.ProxyControlServer.
func (c *control) Tunnels(stream grpc.BidiStreamingServer[tunnelv1.TunnelsRequest, tunnelv1.TunnelsResponse]) error {
	if err := c.admit(stream.Context()); err != nil {
		return err
	}
	received := make(chan error, 1)
	go func() {
		for {
			request, err := stream.Recv()
			if err != nil {
				received <- err
				return
			}
			for _, taken := range request.Taken {
				c.main.table.RecordTaken(taken)
			}
			c.main.table.Elsewhere(request.Held)
		}
	}()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	drained := c.main.drained
	for {
		tunnels, changed := c.main.table.Tunnels()
		if err := stream.Send(&tunnelv1.TunnelsResponse{Tunnels: tunnels, Draining: c.main.draining.Load()}); err != nil {
			return err
		}
		ticker.Reset(every)
		select {
		case <-changed:
		case <-ticker.C:
		case <-drained:
			drained = nil // the next answer reports it, and so does each after it
		case <-received:
			return nil // the client ended its side of the stream, which a manager keeps open
		}
	}
}
