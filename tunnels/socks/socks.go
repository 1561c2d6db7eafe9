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
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"switchyard.dev/eventbus/callers"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/outbound"
	"switchyard.dev/tunnels/relay"
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
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg,
		greeting: callers.NewPool("handshakes", callers.Bounds{Each: 1024, Strangers: callers.AnyNumber}),
		failing:  callers.NewPool("wrong passwords", callers.Bounds{Strangers: 1 << 20, Rate: 1, Burst: 30})}, nil
}

// Constants of the protocol.
const (
	version5                                 = 5
	anonymously, byPassword, noMethod        = 0, 2, 0xff
	passwordVersion, granted, denied         = 1, 0, 1
	connect                                  = 1
	addressIPv4, addressName, addressIPv6    = 1, 3, 4
	succeeded, failure, notAllowed           = 0, 1, 2
	hostUnreachable, refusedByHost           = 4, 5
	commandNotSupported, addressNotSupported = 7, 8
)

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
		err = reply(conn, succeeded, out.LocalAddress())
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
	user, err := s.authenticate(conn, from)
	if err != nil {
		return nil, err
	}
	known(user)
	host, port, err := request(conn)
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
		return nil, errors.Join(errors.New(refused.Message), reply(conn, code(refused.Reason), nil))
	}
	return out, nil
}

// authenticate negotiates the authentication. user is empty for a client without credentials.
func (s *Server) authenticate(conn net.Conn, from string) (user string, err error) {
	var head [2]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return "", err
	}
	if head[0] != version5 {
		return "", fmt.Errorf("it speaks version %d of SOCKS, not 5", head[0])
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(conn, methods); err != nil {
		return "", err
	}
	callers.Begun(conn)
	anonymous, password := false, false
	for _, m := range methods {
		anonymous = anonymous || m == anonymously
		password = password || m == byPassword
	}
	switch {
	case password:
		if _, err := conn.Write([]byte{version5, byPassword}); err != nil {
			return "", err
		}
		return s.password(conn, from)
	case anonymous && (s.cfg.Open || s.cfg.OpenLoopback && callers.Behind(from, nil).Shared):
		_, err := conn.Write([]byte{version5, anonymously})
		return "", err
	}
	_, err = conn.Write([]byte{version5, noMethod})
	return "", errors.Join(errors.New("it shows no user name and password"), err)
}

// password reads a user name and a password.
func (s *Server) password(conn net.Conn, from string) (string, error) {
	var version [1]byte
	if _, err := io.ReadFull(conn, version[:]); err != nil {
		return "", err
	}
	user, err := counted(conn)
	if err != nil {
		return "", err
	}
	password, err := counted(conn)
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

// counted reads a text with a length prefix.
func counted(r io.Reader) (string, error) {
	var length [1]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return "", err
	}
	text := make([]byte, length[0])
	_, err := io.ReadFull(r, text)
	return string(text), err
}

// request reads the destination of a request. It answers requests that are not supported.
func request(conn net.Conn) (host string, port uint16, err error) {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return "", 0, err
	}
	if head[0] != version5 {
		return "", 0, fmt.Errorf("its request has version %d, not 5", head[0])
	}
	switch head[3] {
	case addressIPv4, addressIPv6:
		raw := make([]byte, 4)
		if head[3] == addressIPv6 {
			raw = make([]byte, 16)
		}
		_, err = io.ReadFull(conn, raw)
		a, _ := netip.AddrFromSlice(raw)
		host = a.String()
	case addressName:
		host, err = counted(conn)
	default:
		return "", 0, errors.Join(fmt.Errorf("its request has an address of type %d", head[3]), reply(conn, addressNotSupported, nil))
	}
	var number [2]byte
	if err == nil {
		_, err = io.ReadFull(conn, number[:])
	}
	if err == nil && head[1] != connect {
		err = errors.Join(fmt.Errorf("it asks for command %d, and only CONNECT is there", head[1]), reply(conn, commandNotSupported, nil))
	}
	return host, binary.BigEndian.Uint16(number[:]), err
}

// reply answers a request.
func reply(conn net.Conn, what byte, bound net.Addr) error {
	address := netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	if tcp, is := bound.(*net.TCPAddr); is {
		address = tcp.AddrPort()
	}
	kind, ip := byte(addressIPv4), address.Addr().Unmap()
	if ip.Is6() {
		kind = addressIPv6
	}
	text := append([]byte{version5, what, 0, kind}, ip.AsSlice()...)
	_, err := conn.Write(binary.BigEndian.AppendUint16(text, address.Port()))
	return err
}

// code returns the SOCKS5 reply code for a reason.
func code(reason tunnelv1.Reason) byte {
	switch reason {
	case tunnelv1.Reason_REASON_DESTINATION, tunnelv1.Reason_REASON_FORBIDDEN, tunnelv1.Reason_REASON_UNAUTHENTICATED:
		return notAllowed
	case tunnelv1.Reason_REASON_NOT_FOUND:
		return hostUnreachable
	case tunnelv1.Reason_REASON_UNREACHABLE:
		return refusedByHost
	}
	return failure
}
