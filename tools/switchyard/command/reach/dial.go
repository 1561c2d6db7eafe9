package reach

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

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
