package carrier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"google.golang.org/protobuf/proto"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// Session is one end of a session.
type Session struct {
	wire    *wire
	mux     *yamux.Session
	timing  Timing
	limits  Limits
	opens   func() proto.Message // returns an empty message that opens a connection
	control *Stream
	proxy   bool // this end is the proxy
	beside  func() *Session

	// config is read by openStream, with opening, and by the multiplexer's reader, which alone writes it.
	config  *yamux.Config
	opening sync.RWMutex

	writing  sync.Mutex             // of control
	received chan *tunnelv1.Control // the newest, until it is received
	leaving  chan *tunnelv1.Leave
	renewals chan *tunnelv1.Renew // the newest, until it is received
	fresh    freshness
	second   second

	ending  sync.Mutex
	err     error
	closing bool // Close was called
	told    bool // Receive has returned the Leave of err
	done    chan struct{}
}

// start begins the multiplexer over an established connection.
func start(conn net.Conn, settings Settings, proxy bool) (*Session, error) {
	settings = settings.orDefaults()
	s := &Session{
		wire:     newWire(conn, settings.Limits),
		timing:   settings.Timing,
		limits:   settings.Limits,
		opens:    settings.Open,
		proxy:    proxy,
		beside:   settings.Beside,
		received: make(chan *tunnelv1.Control, 1),
		leaving:  make(chan *tunnelv1.Leave, 1),
		renewals: make(chan *tunnelv1.Renew, 1),
		done:     make(chan struct{}),
	}
	s.config, s.wire.came = muxConfig(settings), s.size
	s.opening.Lock() // the multiplexer's reader begins before mux is set
	defer s.opening.Unlock()
	var err error
	if proxy {
		s.mux, err = yamux.Server(s.wire, s.config, s.memory)
	} else {
		s.mux, err = yamux.Client(s.wire, s.config, s.memory)
	}
	return s, err
}

// size sets the first window of streams that begin before the next read. Only the multiplexer's reader calls it.
func (s *Session) size() {
	if s.opening.TryLock() {
		if s.config.InitialStreamWindowSize = streamWindow; s.mux.NumStreams() < fewStreams && allMeters.total.Load() < s.limits.UnreadAll/4 {
			s.config.InitialStreamWindowSize = wideWindow
		}
		s.opening.Unlock()
	}
}

// greeted starts the goroutines of a session after the handshake.
func (s *Session) greeted() {
	s.shared().streams.Add(-1) // that of control
	if first := s.beside(); first != nil {
		s.join(first)
	}
	s.wire.greeted.Store(true)
	go s.takeControl()
	go s.takeStreams()
	go s.keep()
}

// Send sends a message to the other end: Declare from a workstation, Declared and a Leave with
// Linger from a proxy. It blocks while the other end does not read, at most until the session
// ends.
func (s *Session) Send(m *tunnelv1.Control) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := writeMessage(s.control, m, maxControl); err != nil {
		return s.because(err)
	}
	return nil
}

// Receive returns the newest message of the other end that it has not returned: Declare at a
// proxy, Declared and Leave at a workstation. Each message replaces the one before, so a slow
// receiver skips some and delays nothing. Leave is the last. After it, and when the session ended
// without one, the error is that of Err. Only one goroutine may receive.
func (s *Session) Receive(ctx context.Context) (*tunnelv1.Control, error) {
	select {
	case <-s.done:
		return s.last()
	default:
	}
	select {
	case m := <-s.received:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.done:
		return s.last()
	}
}

// last returns the result of Receive after the session has ended.
func (s *Session) last() (*tunnelv1.Control, error) {
	s.ending.Lock()
	defer s.ending.Unlock()
	if left := (*LeftError)(nil); errors.As(s.err, &left) && !s.told {
		s.told = true
		return &tunnelv1.Control{Is: &tunnelv1.Control_Leave{Leave: left.Leave}}, nil
	}
	return nil, s.err
}

// takeControl reads the control stream until the session ends.
func (s *Session) takeControl() {
	for {
		m := &tunnelv1.Control{}
		err := readMessage(s.control, m, maxControl)
		switch {
		case errors.Is(err, io.EOF):
			s.end(ErrEnded)
		case errors.Is(err, errMessage):
			s.end(fmt.Errorf("control stream: %w", err))
		case err != nil && !s.mux.IsClosed(): // else takeStreams has the reason
			s.end(fmt.Errorf("control stream: %w", err))
		}
		if err != nil {
			return
		}
		switch is := m.Is.(type) {
		case *tunnelv1.Control_Ping:
			continue
		case *tunnelv1.Control_Leave:
			if s.proxy {
				break
			}
			if is.Leave.GetLinger().AsDuration() <= 0 {
				s.end(&LeftError{is.Leave})
				return
			}
			select { // The first counts.
			case s.leaving <- is.Leave:
			default:
			}
			continue
		case *tunnelv1.Control_Renew:
			if s.proxy {
				newest(s.renewals, is.Renew)
				continue
			}
		case *tunnelv1.Control_Declare, *tunnelv1.Control_Declared:
			if _, asks := is.(*tunnelv1.Control_Declare); asks == s.proxy {
				newest(s.received, m)
				continue
			}
		}
		s.end(fmt.Errorf("control stream: %w: %T is not for this end", errMessage, m.Is))
		return
	}
}

// newest replaces the message that waits in a channel of one, if there is one. One goroutine alone
// sends to it.
func newest[T any](waiting chan T, m T) {
	select {
	case <-waiting:
	default:
	}
	waiting <- m
}

// Heard returns when data last came from the other end.
func (s *Session) Heard() time.Time {
	return s.wire.began.Add(time.Duration(s.wire.heard.Load()))
}

// Leaving returns the channel for the Leave of a proxy, which is sent once; after it the session
// continues at most for its Linger.
func (s *Session) Leaving() <-chan *tunnelv1.Leave { return s.leaving }

// Renewals returns the channel for the newer tokens of a workstation, of which it has the newest.
func (s *Session) Renewals() <-chan *tunnelv1.Renew { return s.renewals }

// Connections returns the number of open connections in the session, opened by either end.
func (s *Session) Connections() int { return int(s.shared().streams.Load()) }

// Done is closed once the session and all its streams have ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended, and nil before.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// because returns why the session ended, or err while it has not.
func (s *Session) because(err error) error {
	s.ending.Lock()
	defer s.ending.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.mux.IsClosed() {
		return fmt.Errorf("%w: %w", ErrCut, err)
	}
	return err
}

// Close ends the session; a proxy may give a reason. Connections in it are cut. It waits for the
// other end to acknowledge, at most for Timing.Goodbye.
func (s *Session) Close(leave *tunnelv1.Leave) {
	goodbye := time.AfterFunc(s.timing.Goodbye, func() { s.end(ErrClosed) })
	defer goodbye.Stop()
	s.ending.Lock()
	if s.err != nil {
		s.ending.Unlock()
		<-s.done
		return
	}
	s.closing = true
	s.ending.Unlock()
	if leave != nil {
		_ = s.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Leave{Leave: leave}})
	}
	_ = s.control.CloseWrite()
	<-s.done
}

// end ends the session; only the first reason counts.
func (s *Session) end(err error) {
	s.ending.Lock()
	if s.err != nil {
		s.ending.Unlock()
		return
	}
	if s.closing {
		err = ErrClosed
	}
	s.err = err
	s.ending.Unlock()
	_ = s.mux.Close() // the wire, and every stream
	s.wire.meter.stop()
	close(s.done)
}
