package trust

import (
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
)

// keptAlive detects a lost peer within 15 seconds, also while there are no calls.
var keptAlive = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}

// Dial returns a connection to a program of the operator's, at host:port, which is opened with
// the first call. The name is looked up for each attempt. service is the host, or the
// host:port, that Roots must vouch for; without Roots the connection is plain. Options that are
// given count more than those of every connection.
func Dial(address, service string, r *Roots, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	if host, _, err := net.SplitHostPort(service); err == nil {
		service = host
	}
	conn, err := grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(ClientCredentials(r, service)),
		grpc.WithNoProxy(), // pods reach each other
		grpc.WithKeepaliveParams(keptAlive),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: time.Second,
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
		}),
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", address, err)
	}
	return conn, nil
}
