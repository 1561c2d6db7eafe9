// Package questions has questions of honest callers over gRPC to listeners under attack.
package questions

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tools/wait"
)

// Question is a question that a server answers; the error is why it does not.
type Question func(ctx context.Context, conn *grpc.ClientConn) error

// Patient repeats a question while it is rate-limited: an address can start fewer calls per second than the test does.
func Patient(ask Question) Question {
	return func(ctx context.Context, conn *grpc.ClientConn) error {
		for {
			err := ask(ctx, conn)
			if status.Code(err) != codes.ResourceExhausted {
				return err
			}
			if late := wait.For(ctx, 200*time.Millisecond); late != nil {
				return fmt.Errorf("%w: %w", late, err)
			}
		}
	}
}

// Operator requests the operator's description from tunnel-api, which needs no token.
func Operator(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := tunnelv1.NewTunnelAPIClient(conn).GetOperatorInfo(ctx, &tunnelv1.GetOperatorInfoRequest{})
	return err
}

// Unknown clients show the manager a token that no pod has, which it refuses.
func Nobody(ctx context.Context, conn *grpc.ClientConn) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer nobody")
	_, err := jobexecv1.NewRunnersClient(conn).Enrol(ctx, &jobexecv1.EnrolRequest{})
	if status.Code(err) == codes.Unauthenticated {
		return nil
	}
	return err
}

// Anyone shows traffic-manager a ticket that was never issued, which it refuses.
func Anyone(ctx context.Context, conn *grpc.ClientConn) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer anyone")
	_, err := trafficv1.NewReadersClient(conn).Counts(ctx, &trafficv1.CountsRequest{})
	if status.Code(err) == codes.Unauthenticated {
		return nil
	}
	return err
}
