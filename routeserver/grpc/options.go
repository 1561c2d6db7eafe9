package routesgrpc

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// options bound what a client can take, and let live clients live.
func options(secure credentials.TransportCredentials) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(secure), // nil: plain
		grpc.ForceServerCodecV2(newCodec()),
		// Published clients ping every ten seconds, also on an idle watch. The
		// default of grpc-go cuts them after three pings.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             5 * time.Second,
			PermitWithoutStream: true,
		}),
		// A client that disappeared without closing its connection is detected within 15 s.
		// Connections have no maximum age: closing a healthy watch would only make its client
		// reload everything.
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time:              10 * time.Second,
			Timeout:           5 * time.Second,
			MaxConnectionIdle: 15 * time.Minute,
		}),
		grpc.MaxConcurrentStreams(128),
		grpc.MaxHeaderListSize(32 << 10),
		grpc.ConnectionTimeout(5 * time.Second),
		// A request of the routes API is five names; one of our own API can hold the
		// facts of a dry run.
		grpc.MaxRecvMsgSize(1 << 20),
	}
}
