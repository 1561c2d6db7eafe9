package carrier

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/protobuf/proto"
)

// Connect begins a session from its client: it sends hello, and reads the server's answer into
// answer. An error of accepted, which reads the answer, ends the session and is returned as it is.
// Connect takes ownership of the connection and closes it.
func (c Settings) Connect(ctx context.Context, conn net.Conn, hello, answer proto.Message, accepted func() error) (*Session, error) {
	s, err := start(conn, c, false)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	ctx, stop := s.bounded(ctx)
	defer stop()
	if err := s.hello(ctx, hello, answer); err != nil {
		err = s.notBegun(ctx, err)
		s.end(err)
		return nil, err
	}
	if err := accepted(); err != nil {
		s.end(err)
		return nil, err
	}
	s.greeted()
	return s, nil
}

func (s *Session) hello(ctx context.Context, hello, answer proto.Message) error {
	mux, err := s.openStream(ctx)
	if err != nil {
		return err
	}
	s.control = newStream(mux, s, func() {})
	if err := writeMessage(s.control, hello, maxHello); err != nil {
		return err
	}
	return readMessage(s.control, answer, maxHello)
}

// Serve begins a session at its server: it reads the first message of the client into hello, and
// sends the answer that greet returns. An error of greet ends the session after that, and is
// returned as it is. Serve takes ownership of the connection and closes it.
func (c Settings) Serve(ctx context.Context, conn net.Conn, hello proto.Message, greet func(context.Context) (answer proto.Message, err error)) (*Session, error) {
	s, err := start(conn, c, true)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	ctx, stop := s.bounded(ctx)
	defer stop()
	if decided, err := s.welcome(ctx, hello, greet); err != nil {
		if !decided {
			err = s.notBegun(ctx, err)
		}
		s.end(err)
		return nil, err
	}
	s.greeted()
	return s, nil
}

// welcome reads the first message and answers it. decided: the error is that of greet.
func (s *Session) welcome(ctx context.Context, hello proto.Message, greet func(context.Context) (proto.Message, error)) (decided bool, err error) {
	mux, err := s.mux.AcceptStream()
	if err != nil {
		return false, err
	}
	s.control = newStream(mux, s, func() {})
	if err := readMessage(s.control, hello, maxHello); err != nil {
		return false, err
	}
	answer, refused := greet(ctx)
	if answer == nil {
		return true, refused
	}
	err = writeMessage(s.control, answer, maxHello)
	if refused == nil {
		return false, err
	}
	if err == nil { // The other end has time to read it.
		_ = s.control.CloseWrite()
		select {
		case <-s.mux.CloseChan():
		case <-time.After(s.timing.Goodbye):
		}
	}
	return true, refused
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
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the handshake of the tunnel did not end in time: %w", ctx.Err())
	case s.mux.IsClosed():
		_, cause := s.mux.OpenStream(ctx)
		return fmt.Errorf("handshake of the tunnel: %w", cause)
	default:
		return fmt.Errorf("handshake of the tunnel: %w", err)
	}
}
