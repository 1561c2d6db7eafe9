package carrier

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"google.golang.org/protobuf/proto"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// Open requests a connection from the other end. A refusal is a RefusedError. The context bounds
// the request, not the connection.
func (s *Session) Open(ctx context.Context, open proto.Message) (net.Conn, error) {
	if err := s.fresh.wait(ctx, s); err != nil {
		return nil, err
	}
	mux, err := s.openStream(ctx)
	if err != nil {
		return nil, s.notOpened(ctx, err)
	}
	stream := newStream(mux, s, func() {})
	stop := context.AfterFunc(ctx, stream.Cut)
	opened := &tunnelv1.Opened{}
	err = writeMessage(stream, open, maxOpen)
	if err == nil {
		err = readMessage(stream, opened, maxOpen)
	}
	if !stop() || err != nil {
		stream.Cut()
		return nil, s.notOpened(ctx, err)
	}
	if opened.Refused != nil {
		_ = stream.Close()
		return nil, &RefusedError{opened.Refused}
	}
	return stream, nil
}

// openStream begins a stream; the multiplexer reads config for it.
func (s *Session) openStream(ctx context.Context) (*yamux.Stream, error) {
	s.opening.RLock()
	defer s.opening.RUnlock()
	return s.mux.OpenStream(ctx)
}

func (s *Session) notOpened(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.because(fmt.Errorf("the other end of the tunnel did not answer Open: %w", err))
}

// Incoming is a connection that the other end requests. It waits for Accept or Refuse.
type Incoming struct {
	// Request is the message that opens it; Open is the same message in a session of workstations.
	Request proto.Message
	Open    *tunnelv1.Open
	stream  *Stream
}

// Accept reports to the other end that the connection is open, and returns this side of it.
func (in *Incoming) Accept() (net.Conn, error) {
	if err := in.answer(&tunnelv1.Opened{}); err != nil {
		in.stream.Cut()
		return nil, err
	}
	return in.stream, nil
}

// Refuse reports to the other end why there is no connection.
func (in *Incoming) Refuse(refused *tunnelv1.Refused) {
	if refused == nil {
		refused = &tunnelv1.Refused{}
	}
	if err := in.answer(&tunnelv1.Opened{Refused: refused}); err != nil {
		in.stream.Cut()
		return
	}
	_ = in.stream.Close()
}

func (in *Incoming) answer(opened *tunnelv1.Opened) error {
	return writeMessage(in.stream, opened, maxOpen)
}

// Accept returns the next connection that the other end requests, in this session or in one that has joined it.
func (s *Session) Accept(ctx context.Context) (*Incoming, error) {
	select {
	case in := <-s.shared().incoming:
		return in, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.done:
		return nil, s.err
	}
}

// Requests returns the connections that the other end requests, until ctx or the session ends.
func (s *Session) Requests(ctx context.Context) iter.Seq[*Incoming] {
	return func(yield func(*Incoming) bool) {
		for in, err := s.Accept(ctx); err == nil && yield(in); in, err = s.Accept(ctx) {
		}
	}
}

// takeStreams accepts the streams of the other end until the session ends.
func (s *Session) takeStreams() {
	for {
		mux, err := s.mux.AcceptStream()
		if err != nil {
			s.end(fmt.Errorf("%w: %w", ErrCut, err))
			return
		}
		there := s.shared().accepted.Add(1)
		go s.take(mux, int(there) > s.limits.Streams)
	}
}

// take reads the Open of a stream, and passes it to Accept.
func (s *Session) take(mux *yamux.Stream, full bool) {
	in := &Incoming{
		Request: s.opens(),
		stream:  newStream(mux, s, func() { s.shared().accepted.Add(-1) }),
	}
	in.Open, _ = in.Request.(*tunnelv1.Open)
	_ = in.stream.SetDeadline(time.Now().Add(s.timing.Handshake))
	if err := readMessage(in.stream, in.Request, maxOpen); err != nil {
		if errors.Is(err, errMessage) {
			in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: "The message that opens the connection is not an Open."})
			return
		}
		in.stream.Cut()
		return
	}
	if full {
		in.exhausted("%d connections are open through this tunnel already. Close some.")
		return
	}
	_ = in.stream.SetDeadline(time.Time{})
	select {
	case s.shared().incoming <- in:
	default:
		_ = in.stream.SetDeadline(time.Now().Add(s.timing.Handshake))
		in.exhausted("%d connections are there or wait to be accepted. Try again in a moment.")
	}
}

func (in *Incoming) exhausted(format string) {
	in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_EXHAUSTED, Message: fmt.Sprintf(format, in.stream.session.limits.Streams)})
}
