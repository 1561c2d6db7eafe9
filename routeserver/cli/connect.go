package cli

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/door"
)

// maxMessage is the largest answer that is taken.
const maxMessage = 64 << 20

// connect returns the route server that the user means.
func (a *app) connect(ctx context.Context) (routingv1.RoutingClient, error) {
	if a.flags.archive != "" {
		log, err := a.load(a.flags.archive)
		if err != nil {
			return nil, err
		}
		server, err := a.serve(ctx, log)
		if err != nil {
			return nil, err
		}
		a.close = append(a.close, server.stop)
		return server.client, nil
	}
	address, how, err := a.address(ctx)
	if err != nil {
		return nil, err
	}
	return a.dial(address, how)
}

// address finds where the route server is, and says how it was found.
func (a *app) address(ctx context.Context) (address, how string, err error) {
	for _, named := range []struct{ by, address string }{
		{"--server", a.flags.server}, {"SWITCHYARD_SERVER", a.Getenv("SWITCHYARD_SERVER")},
	} {
		if named.address == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(named.address); err != nil || strings.Contains(named.address, "/") {
			return "", "", usage("%s is %q and not like routeserver.signadot.svc:7777: it is the gRPC address, host and port", named.by, named.address)
		}
		return named.address, named.by, nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.flags.patience)
	defer cancel()
	address, err = a.forward(ctx)
	if err != nil {
		return "", "", &exit{ExitUnavailable, fmt.Errorf(`no route server was reached.
  --server and SWITCHYARD_SERVER name none
  through the kubeconfig: %w
Name a route server (--server host:port), or a cluster that has one (--kubeconfig, --context, --namespace-of-operator)`, err)}
	}
	return address, "the kubeconfig", nil
}

// forward opens a port to a route server of the cluster until the end of the run.
func (a *app) forward(ctx context.Context) (string, error) {
	open, stop := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, stop)
	address, err := a.flags.cluster.Forward(open)
	unhook()
	if err != nil {
		stop()
		if ctx.Err() != nil {
			err = fmt.Errorf("it took longer than --request-timeout %s: %w", a.flags.patience, err)
		}
		return "", err
	}
	a.close = append(a.close, stop)
	return address, nil
}

// tokenFile names the file with the token that is shown to route servers; empty for none.
func (a *app) tokenFile() string {
	return cmp.Or(a.flags.tokenFile, a.Getenv("SWITCHYARD_TOKEN_FILE"))
}

// dial returns a client of the server at an address. Errors of calls say how the
// address was found.
func (a *app) dial(address, how string) (routingv1.RoutingClient, error) {
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // as the routes API: for use inside the cluster
		door.Show(a.tokenFile()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return unreachable(invoke(ctx, method, req, reply, cc, opts...), address, how)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, desc, cc, method, opts...)
			return &stream{s, address, how}, unreachable(err, address, how)
		}))
	if err != nil {
		return nil, usage("%q is not the address of a route server: %w", address, err)
	}
	a.close = append(a.close, func() { _ = conn.Close() })
	return routingv1.NewRoutingClient(conn), nil
}
