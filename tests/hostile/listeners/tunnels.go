package listeners

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/hostile/attacks"
	"switchyard.dev/tools/wait"
)

// askOperator requests the operator's description from tunnel-api, which needs no token. It retries
// when it is rate-limited: an address can start fewer calls per second than the test does.
func askOperator(w *World, l *Listener) (call, error) {
	return func(ctx context.Context) error {
		conn, err := dial(w.address(l, 0), credentials.NewTLS(attacks.OverTLS()))
		if err != nil {
			return err
		}
		defer conn.Close()
		for {
			_, err := tunnelv1.NewTunnelAPIClient(conn).GetOperatorInfo(ctx, &tunnelv1.GetOperatorInfoRequest{})
			if status.Code(err) != codes.ResourceExhausted {
				return err
			}
			if late := wait.For(ctx, 200*time.Millisecond); late != nil {
				return fmt.Errorf("%w: %w", late, err)
			}
		}
	}, nil
}

// enrolNobody shows the manager a token that no pod has, and expects that it is refused. It retries as askOperator does.
func enrolNobody(w *World, l *Listener) (call, error) {
	return func(ctx context.Context) error {
		conn, err := dial(w.address(l, 0), credentials.NewTLS(attacks.OverTLS()))
		if err != nil {
			return err
		}
		defer conn.Close()
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer nobody")
		for {
			switch _, err := jobexecv1.NewRunnersClient(conn).Enrol(ctx, &jobexecv1.EnrolRequest{}); status.Code(err) {
			case codes.Unauthenticated:
				return nil
			case codes.ResourceExhausted:
				if late := wait.For(ctx, 200*time.Millisecond); late != nil {
					return fmt.Errorf("%w: %w", late, err)
				}
			default:
				return fmt.Errorf("a token that no pod has: %w", err)
			}
		}
	}, nil
}

// greets sends a greeting to a listener, and checks the beginning of the answer. It retries when
// the connection is reset, as clients do: an address may begin fewer a second than begin here,
// and neither protocol has an error for that so early.
func greets(says, answer string) func(*World, *Listener) (call, error) {
	return func(w *World, l *Listener) (call, error) {
		return func(ctx context.Context) error {
			for {
				err := greet(ctx, w.address(l, 0), says, answer)
				if !errors.Is(err, syscall.ECONNRESET) {
					return err
				}
				if late := wait.For(ctx, 200*time.Millisecond); late != nil {
					return fmt.Errorf("%w: %w", late, err)
				}
			}
		}, nil
	}
}

func greet(ctx context.Context, address, says, answer string) error {
	c, err := from(honestAddress, patience).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, says); err != nil {
		return err
	}
	got := make([]byte, len(answer))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if !strings.HasPrefix(string(got), answer) {
		return fmt.Errorf("it answers %q", got)
	}
	return nil
}

// shakeHands makes a connection over TLS that speaks a protocol.
func shakeHands(protocol string) func(*World, *Listener) (call, error) {
	return func(w *World, l *Listener) (call, error) {
		return func(ctx context.Context) error {
			c, err := from(honestAddress, patience).DialContext(ctx, "tcp", w.address(l, 0))
			if err != nil {
				return err
			}
			defer c.Close()
			return tls.Client(c, attacks.OverTLS(protocol)).HandshakeContext(ctx)
		}, nil
	}
}
