package reach

import (
	"context"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"switchyard.dev/routeserver/door"
	"switchyard.dev/tools/switchyard/command/exit"
)

// maxMessage is the largest answer that is taken.
const maxMessage = 64 << 20

// Dial returns a connection to the server at an address. It sends the token in tokenFile, unless
// that is "". Errors of calls name the address and how it was found.
func Dial(address, how, tokenFile string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // as the routes API: for use inside the cluster
		door.Show(tokenFile),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return unreachable(invoke(ctx, method, req, reply, cc, opts...), address, how)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, desc, cc, method, opts...)
			return &stream{s, address, how}, unreachable(err, address, how)
		}))
	if err != nil {
		return nil, exit.Usage.Errorf("%q is not the address of a route server: %w", address, err)
	}
	return conn, nil
}

// unreachable adds the address, and how it was found, to connection errors. Errors returned by a
// route server are unchanged: they have a reason.
func unreachable(err error, address, how string) error {
	s, ok := status.FromError(err)
	if err == nil || !ok || answered(s) {
		return err
	}
	switch s.Code() {
	case codes.Unavailable:
		return exit.Unavailable.Errorf("no route server answers at %s (from %s): %s\nsee that it is running, and that this is its gRPC port, usually 7777", address, how, s.Message())
	case codes.DeadlineExceeded:
		return exit.Unavailable.Errorf("the route server at %s (from %s) did not answer in time; --request-timeout gives it more", address, how)
	case codes.Unimplemented:
		return exit.Unavailable.Errorf("what answers at %s (from %s) does not know this API: it is no route server, or one of an older version", address, how)
	}
	return err
}

// stream adds the address to the errors of a stream.
type stream struct {
	grpc.ClientStream
	address, how string
}

// RecvMsg implements grpc.ClientStream.
func (s *stream) RecvMsg(m any) error {
	return unreachable(s.ClientStream.RecvMsg(m), s.address, s.how)
}

// answered reports whether a route server has made the status.
func answered(s *status.Status) bool {
	for _, d := range s.Details() {
		if _, ok := d.(*errdetails.ErrorInfo); ok {
			return true
		}
	}
	return false
}
