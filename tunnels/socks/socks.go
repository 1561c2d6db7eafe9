// Package socks serves SOCKS5 (RFC 1928) to workstations: CONNECT only, with names that are
// resolved in the cluster.
//
// Clients authenticate with a user name and a password (RFC 1929) that are valid for minutes,
// also through a port-forward, so that each record names a user. Config.Open admits all clients
// without them, Config.OpenLoopback those at loopback addresses.
//
// The protocol is implemented here, in some hundred lines: libraries decide whether a client
// needs a password before its address is known, distinguish refusals by the text of errors, and
// have no deadline for each step.
package socks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"time"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/tunnels/outbound"
	"switchyard.dev/tunnels/relay"
	"switchyard.dev/tunnels/socks/handshake"
)

// Config configures a Server.
type Config struct {
	// Gate opens the connections. Required.
	Gate *outbound.Gate
	// Check returns nil when a user name and a password are valid. Required.
	Check func(user, password string) error
	// Open admits all clients without credentials.
	Open bool
	// OpenLoopback admits clients at loopback addresses without credentials, as earlier releases
	// did for those of a port-forward.
	OpenLoopback bool
	// Logger logs refused clients. Default: none.
	Logger *slog.Logger
}

// Server serves connections. It is safe for concurrent use.
type Server struct {
	cfg Config
	// greeting bounds clients that have not sent their request, and failing those that guess
	// passwords.
	greeting, failing *callers.Pool
}

// handshakeWithin is how long a client has to send its request.
const handshakeWithin = 10 * time.Second

// New returns a Server.
func New(cfg Config) (*Server, error) {
	if cfg.Gate == nil || cfg.Check == nil {
		return nil, errors.New("SOCKS5: Gate and Check are both needed")
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Server{cfg: cfg,
		greeting: callers.NewPool("handshakes", callers.Bounds{Each: 1024, Strangers: callers.AnyNumber}),
		failing:  callers.NewPool("wrong passwords", callers.Bounds{Strangers: 1 << 20, Rate: 1, Burst: 30})}, nil
}

// Constants of the authentication (RFC 1929).
const passwordVersion, granted, denied = 1, 0, 1

// Serve serves a connection, which it closes. known is called with the user once the client has
// authenticated, and with an empty user when no credentials are needed.
func (s *Server) Serve(ctx context.Context, conn net.Conn, known func(user string)) {
	stream := relay.Of(conn)
	stop := context.AfterFunc(ctx, func() { relay.Cut(stream) })
	defer stop()
	out, err := s.shake(ctx, conn, known)
	if err != nil {
		s.cfg.Logger.Debug("a SOCKS5 client was refused", "from", conn.RemoteAddr().String(), "error", err)
		_ = conn.Close() // the reply was sent
		return
	}
	if err := conn.SetDeadline(time.Time{}); err == nil {
		err = handshake.Reply(conn, handshake.Succeeded, out.LocalAddress())
		if err == nil {
			out.Join(stream)
			return
		}
		out.Abandon(err)
	} else {
		out.Abandon(err)
	}
	_ = conn.Close() // no byte has passed
}

// shake performs the handshake up to, but not including, the reply that reports success.
func (s *Server) shake(ctx context.Context, conn net.Conn, known func(user string)) (*outbound.Conn, error) {
	from := conn.RemoteAddr().String()
	leave, err := s.greeting.Enter(callers.Behind(from, nil))
	if err != nil {
		return nil, err
	}
	left := false
	done := func() {
		if !left {
			left = true
			leave()
		}
	}
	defer done()
	if err := conn.SetDeadline(time.Now().Add(handshakeWithin)); err != nil {
		return nil, err
	}
	var user string
	host, port, err := handshake.Request(conn, func(methods []byte) (err error) {
		if user, err = s.authenticate(conn, from, methods); err == nil {
			known(user)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	done()
	// Dialling has deadlines of its own.
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	out, refused := s.cfg.Gate.Open(ctx, outbound.Who{Via: "socks5", User: user, From: from}, host, uint32(port))
	if refused != nil {
		return nil, errors.Join(errors.New(refused.Message), handshake.Reply(conn, handshake.Code(refused.Reason), nil))
	}
	return out, nil
}

// authenticate negotiates the authentication. user is empty for a client without credentials.
func (s *Server) authenticate(conn net.Conn, from string, methods []byte) (user string, err error) {
	callers.Begun(conn)
	switch {
	case slices.Contains(methods, handshake.Password):
		if err := handshake.Select(conn, handshake.Password); err != nil {
			return "", err
		}
		return s.password(conn, from)
	case slices.Contains(methods, handshake.Anonymous) && (s.cfg.Open || s.cfg.OpenLoopback && callers.Behind(from, nil).Shared):
		return "", handshake.Select(conn, handshake.Anonymous)
	}
	return "", errors.Join(errors.New("it shows no user name and password"), handshake.Refuse(conn))
}

// password reads a user name and a password.
func (s *Server) password(conn net.Conn, from string) (string, error) {
	var version [1]byte
	if _, err := io.ReadFull(conn, version[:]); err != nil {
		return "", err
	}
	user, err := handshake.Text(conn)
	if err != nil {
		return "", err
	}
	password, err := handshake.Text(conn)
	if err != nil {
		return "", err
	}
	if version[0] != passwordVersion {
		return "", fmt.Errorf("its user name has version %d, not 1", version[0])
	}
	if wrong := s.cfg.Check(user, password); wrong != nil {
		if leave, err := s.failing.Enter(callers.At(from)); err == nil {
			s.cfg.Logger.Info("a SOCKS5 password was refused", "from", from, "user", fmt.Sprintf("%.253q", user), "error", wrong)
			leave()
		}
		_, err := conn.Write([]byte{passwordVersion, denied})
		return "", errors.Join(wrong, err)
	}
	_, err = conn.Write([]byte{passwordVersion, granted})
	return user, err
}
