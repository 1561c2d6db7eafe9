package carrier

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/protobuf/proto"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// Version is the version of the protocol, for Hello.
const Version = 1

// Greet answers the Hello at a proxy: with a welcome or a refusal.
type Greet func(context.Context, *tunnelv1.Hello) (*tunnelv1.Welcome, *tunnelv1.Refused)

// Connect begins a session from a workstation. It takes ownership of the connection and closes
// it. A refusal of the proxy is a RefusedError.
func Connect(ctx context.Context, conn net.Conn, hello *tunnelv1.Hello) (*Session, *tunnelv1.Welcome, error) {
	return Timing{}.Connect(ctx, conn, hello)
}

// Serve begins a session at a proxy. It takes ownership of the connection and closes it. When
// greet refuses, the error is a RefusedError.
func Serve(ctx context.Context, conn net.Conn, greet Greet) (*Session, *tunnelv1.Hello, error) {
	return Timing{}.Serve(ctx, conn, greet)
}

// Connect is Connect with other time limits.
func (t Timing) Connect(ctx context.Context, conn net.Conn, hello *tunnelv1.Hello) (*Session, *tunnelv1.Welcome, error) {
	answer := &tunnelv1.Control{}
	s, err := Settings{Timing: t}.Connect(ctx, conn, &tunnelv1.Control{Is: &tunnelv1.Control_Hello{Hello: hello}}, answer, func() error {
		switch is := answer.Is.(type) {
		case *tunnelv1.Control_Welcome:
			return nil
		case *tunnelv1.Control_Refused:
			return &RefusedError{is.Refused}
		default:
			return fmt.Errorf("handshake of the tunnel: %w: Hello is answered by %T", errMessage, is)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	return s, answer.GetWelcome(), nil
}

// Serve is Serve with other time limits.
func (t Timing) Serve(ctx context.Context, conn net.Conn, greet Greet) (*Session, *tunnelv1.Hello, error) {
	first := &tunnelv1.Control{}
	s, err := Settings{Timing: t}.Serve(ctx, conn, first, func(ctx context.Context) (proto.Message, error) {
		hello := first.GetHello()
		if hello == nil {
			return nil, fmt.Errorf("handshake of the tunnel: %w: the first is %T, not Hello", errMessage, first.Is)
		}
		refused := sensible(hello)
		var welcome *tunnelv1.Welcome
		if refused == nil {
			welcome, refused = greet(ctx, hello)
		}
		if refused != nil {
			return &tunnelv1.Control{Is: &tunnelv1.Control_Refused{Refused: refused}}, &RefusedError{refused}
		}
		return &tunnelv1.Control{Is: &tunnelv1.Control_Welcome{Welcome: welcome}}, nil
	})
	if err != nil {
		return nil, nil, err
	}
	return s, first.GetHello(), nil
}

// sensible returns the refusal of an invalid Hello, and nil for a valid one.
func sensible(hello *tunnelv1.Hello) *tunnelv1.Refused {
	invalid := func(format string, values ...any) *tunnelv1.Refused {
		return &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: fmt.Sprintf(format, values...)}
	}
	const maxLabels, maxLabel, maxAll, maxSession = 16, 256, 2048, 128
	switch {
	case hello.Version != Version:
		return invalid("This proxy speaks version %d of the protocol, the workstation %d. Use the switchyard of the operator's release.", Version, hello.Version)
	case hello.Session == "" || len(hello.Session) > maxSession:
		return invalid("The session has no name, or one of more than %d bytes.", maxSession)
	case hello.Epoch == 0:
		return invalid("The connection has no epoch.")
	case len(hello.Labels) > maxLabels:
		return invalid("There are %d labels, at most %d are allowed.", len(hello.Labels), maxLabels)
	}
	all := 0 // The labels are sent to the manager with each tunnel.
	for key, value := range hello.Labels {
		if len(key) > maxLabel || len(value) > maxLabel {
			return invalid("A label has more than %d bytes.", maxLabel)
		}
		all += len(key) + len(value)
	}
	if all > maxAll {
		return invalid("The labels have %d bytes together, at most %d are allowed.", all, maxAll)
	}
	return nil
}
