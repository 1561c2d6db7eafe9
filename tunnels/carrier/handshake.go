package carrier

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

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
	s, err := start(conn, t, false)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	ctx, stop := s.bounded(ctx)
	defer stop()
	welcome, err := s.hello(ctx, hello)
	if err != nil {
		err = s.notBegun(ctx, err)
		s.end(err)
		return nil, nil, err
	}
	s.greeted()
	return s, welcome, nil
}

func (s *Session) hello(ctx context.Context, hello *tunnelv1.Hello) (*tunnelv1.Welcome, error) {
	mux, err := s.mux.OpenStream(ctx)
	if err != nil {
		return nil, err
	}
	s.control = newStream(mux, s, func() {})
	if err := writeMessage(s.control, &tunnelv1.Control{Is: &tunnelv1.Control_Hello{Hello: hello}}, maxHello); err != nil {
		return nil, err
	}
	answer := &tunnelv1.Control{}
	if err := readMessage(s.control, answer, maxHello); err != nil {
		return nil, err
	}
	switch is := answer.Is.(type) {
	case *tunnelv1.Control_Welcome:
		return is.Welcome, nil
	case *tunnelv1.Control_Refused:
		return nil, &RefusedError{is.Refused}
	default:
		return nil, fmt.Errorf("%w: Hello is answered by %T", errMessage, is)
	}
}

// Serve is Serve with other time limits.
func (t Timing) Serve(ctx context.Context, conn net.Conn, greet Greet) (*Session, *tunnelv1.Hello, error) {
	s, err := start(conn, t, true)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	ctx, stop := s.bounded(ctx)
	defer stop()
	hello, err := s.welcome(ctx, greet)
	if err != nil {
		err = s.notBegun(ctx, err)
		s.end(err)
		return nil, nil, err
	}
	s.greeted()
	return s, hello, nil
}

func (s *Session) welcome(ctx context.Context, greet Greet) (*tunnelv1.Hello, error) {
	mux, err := s.mux.AcceptStream()
	if err != nil {
		return nil, err
	}
	s.control = newStream(mux, s, func() {})
	first := &tunnelv1.Control{}
	if err := readMessage(s.control, first, maxHello); err != nil {
		return nil, err
	}
	hello := first.GetHello()
	if hello == nil {
		return nil, fmt.Errorf("%w: the first is %T, not Hello", errMessage, first.Is)
	}
	if refused := sensible(hello); refused != nil {
		return nil, s.refuse(refused)
	}
	welcome, refused := greet(ctx, hello)
	if refused != nil {
		return nil, s.refuse(refused)
	}
	return hello, writeMessage(s.control, &tunnelv1.Control{Is: &tunnelv1.Control_Welcome{Welcome: welcome}}, maxHello)
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

// refuse answers a Hello with a refusal, and gives the other end time to read it.
func (s *Session) refuse(refused *tunnelv1.Refused) error {
	if err := writeMessage(s.control, &tunnelv1.Control{Is: &tunnelv1.Control_Refused{Refused: refused}}, maxHello); err == nil {
		_ = s.control.CloseWrite()
		select {
		case <-s.mux.CloseChan():
		case <-time.After(s.timing.Goodbye):
		}
	}
	return &RefusedError{refused}
}

// bounded returns a context for the handshake. When it ends, pending reads and writes fail.
func (s *Session) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.timing.Handshake)
	stop := context.AfterFunc(ctx, func() { _ = s.mux.Close() })
	return ctx, func() {
		stop()
		cancel()
	}
}

// notBegun returns the error of a session that did not begin.
func (s *Session) notBegun(ctx context.Context, err error) error {
	refused := (*RefusedError)(nil)
	switch {
	case errors.As(err, &refused):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("the handshake of the tunnel did not end in time: %w", ctx.Err())
	case s.mux.IsClosed():
		_, cause := s.mux.OpenStream(ctx)
		return fmt.Errorf("handshake of the tunnel: %w", cause)
	default:
		return fmt.Errorf("handshake of the tunnel: %w", err)
	}
}
