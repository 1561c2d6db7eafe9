package carrier

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/libp2p/go-yamux/v5"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

var (
	// ErrCut is the error of a stream that ended otherwise than by its other side closing it:
	// that side cut it, or the session ended. It is unknown whether all written bytes have
	// arrived.
	ErrCut = errors.New("the connection through the tunnel was cut")

	// ErrSilent is the error of a session that heard nothing of its peer for Timing.Dead. It is
	// an ErrCut.
	ErrSilent = fmt.Errorf("nothing was heard of the other end of the tunnel: %w", ErrCut)

	// ErrClosed is the error of a session that was closed at this end.
	ErrClosed = fmt.Errorf("the session of the tunnel is closed: %w", net.ErrClosed)

	// ErrEnded is the error of a session that the other end closed without a reason.
	ErrEnded = errors.New("the other end of the tunnel has ended the session")
)

// RefusedError is the peer's refusal, of a session or of a connection.
type RefusedError struct {
	Refused *tunnelv1.Refused
}

// Error implements error.
func (e *RefusedError) Error() string {
	if message := e.Refused.GetMessage(); message != "" {
		return message
	}
	return "refused: " + e.Refused.GetReason().String()
}

// LeftError is the error of a session that the proxy has ended with Leave.
type LeftError struct {
	Leave *tunnelv1.Leave
}

// Error implements error.
func (e *LeftError) Error() string {
	if message := e.Leave.GetWhy().GetMessage(); message != "" {
		return message
	}
	return "the proxy has left: " + e.Leave.GetWhy().GetReason().String()
}

// streamError converts an error of the multiplexer for callers of a stream.
func streamError(err error) error {
	switch {
	case err == nil, err == io.EOF: // itself: a cut may wrap that of the connection below
		return err
	case errors.Is(err, yamux.ErrTimeout):
		return os.ErrDeadlineExceeded
	case errors.Is(err, yamux.ErrStreamClosed):
		return net.ErrClosed
	default:
		return ErrCut
	}
}
